use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How large it is.
const SIZE: &str = "64m";

/// A file system of 64 MiB in memory, on which something keeps its data, and that can be filled. It is
/// gone when this is dropped.
#[derive(Debug)]
pub struct Disk {
    at: PathBuf,
}

impl Disk {
    /// Whether this user may mount one: only root may, and not in every container.
    ///
    /// # Panics
    ///
    /// If no folder can be made.
    pub fn may_be_mounted() -> bool {
        let folder = tempfile::tempdir().expect("a folder can be made");
        Self::try_mount(folder.path()).is_ok()
    }

    /// Mounts one over a folder that exists.
    ///
    /// # Panics
    ///
    /// If this user may not mount.
    pub(crate) fn mount(at: &Path) -> Self {
        let mounted = Self::try_mount(at);
        mounted.unwrap_or_else(|why| panic!("a small disk cannot be mounted: {why}"))
    }

    fn try_mount(at: &Path) -> Result<Self, String> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={SIZE},mode=0755")])
            .arg("tmpfs")
            .arg(at)
            .output()
            .map_err(|error| error.to_string())?;
        if mounted.status.success() {
            Ok(Self { at: at.to_owned() })
        } else {
            Err(String::from_utf8_lossy(&mounted.stderr).into_owned())
        }
    }

    fn filler(&self) -> PathBuf {
        self.at.join("filler")
    }

    /// Writes until nothing more fits, not a page.
    ///
    /// # Panics
    ///
    /// If it ends otherwise than by a full disk.
    pub fn fill(&self) {
        let mut filler = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.filler())
            .expect("an empty file takes no space");
        for size in [1 << 20, 1 << 12, 1] {
            let block = vec![0; size];
            loop {
                match filler.write_all(&block) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("the disk cannot be filled: {error}"),
                }
            }
        }
    }

    /// Makes room again.
    ///
    /// # Panics
    ///
    /// If that does not work.
    pub fn free(&self) {
        let filler = File::create(self.filler()).expect("the filler can be emptied");
        filler.sync_all().expect("memory can be synced");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What used it may take a moment to be gone: the mount goes with its last user.
        let gone = Command::new("umount").arg("--lazy").arg(&self.at).status();
        if !std::thread::panicking() {
            assert!(gone.expect("the command `umount` exists").success());
        }
    }
}
