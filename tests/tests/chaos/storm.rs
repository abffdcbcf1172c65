//! Everything breaks, at random but from a seed, while people work.

use std::time::Duration;

use sayso_tests::{Case, Disk, Options, Shape, Small, on_runtime, until};

use crate::load::{self, Load};
use crate::{SHAPE, faults, number, promises};

/// How many people work at once.
const PEOPLE: usize = 16;

/// The seed: the one that is told, or another each time. It is printed.
fn seed() -> u64 {
    let drawn = uuid::Uuid::now_v7().as_u128() as u32;
    let seed = number("SAYSO_TEST_CHAOS_SEED", drawn as usize) as u64;
    println!("SAYSO_TEST_CHAOS_SEED={seed}");
    seed
}

async fn weather(shape: Shape, options: Options, length: Duration) {
    let case = Case::alone(shape, options).await;
    load::deploy(&case).await;
    let seed = seed();
    let load = Load::new(&case, seed);
    let storm = async {
        faults::storm(&case, seed, length).await;
        load.enough();
    };
    tokio::join!(load.work(PEOPLE), storm);
    promises::hold(&case, &load.ended()).await;
}

fn length() -> Duration {
    Duration::from_secs(number("SAYSO_TEST_CHAOS_SECONDS", 15) as u64)
}

/// S4.5, S6.9, S1.1: processes of every kind are killed and frozen, the broker loses its streams and
/// itself, the database server dies, one or two at a time.
#[test]
fn a_storm_over_services_apart() {
    on_runtime(async {
        let options = load::options().own_server().more_schedulers(1);
        weather(SHAPE, options, length()).await;
    });
}

/// S10.1: the same over the one process that holds everything.
#[test]
fn a_storm_over_one_process() {
    on_runtime(async { weather(Shape::Embedded, load::options(), length() / 2).await });
}

/// A disk fills up under load until what keeps its data there complains, gets room again, and what
/// ended by itself is started again: nothing is lost and nothing runs twice.
async fn full_disk(shape: Shape, what: Small, complaints: &[&str]) {
    if !Disk::may_be_mounted() {
        println!("NOT RUN: this user may not mount a small disk");
        return;
    }
    let mut options = load::options().small(what);
    if shape != Shape::Embedded && what == Small::Database {
        options = options.own_server();
    }
    let case = Case::alone(shape, options).await;
    load::deploy(&case).await;
    let load = Load::new(&case, seed());
    let disk = async {
        until("runs to end", async || {
            (load.count() >= PEOPLE).then_some(())
        })
        .await;
        case.disk().fill();
        until("the disk to be missed", async || {
            let logs = case.logs();
            complaints
                .iter()
                .any(|word| logs.contains(word))
                .then_some(())
        })
        .await;
        case.disk().free();
        match (shape, what) {
            (Shape::Embedded, _) => {}
            (Shape::Apart { .. }, Small::Database) => case.database_up().await,
            // It gives its streams up and says that it wants to be started again.
            (Shape::Apart { .. }, Small::Broker) => {
                case.nats().kill();
                case.nats().start();
                case.nats_accepts().await;
            }
        }
        case.start_all().await;
        let so_far = load.count();
        until("more runs to end", async || {
            (load.count() >= so_far + PEOPLE).then_some(())
        })
        .await;
        load.enough();
    };
    tokio::join!(load.work(PEOPLE), disk);
    promises::hold(&case, &load.ended()).await;
}

#[test]
fn a_full_disk_under_postgres() {
    on_runtime(full_disk(
        SHAPE,
        Small::Database,
        &["No space left on device"],
    ));
}

#[test]
fn a_full_disk_under_sqlite() {
    on_runtime(full_disk(
        Shape::Embedded,
        Small::Database,
        &["database or disk is full"],
    ));
}

#[test]
fn a_full_disk_under_the_broker() {
    on_runtime(full_disk(
        SHAPE,
        Small::Broker,
        &["no space left on device", "out of space"],
    ));
}
