//! From a group to one answer for each of its members, whatever the database does.

use std::time::Duration;

use sayso_driver::{AppendError, Appended};
use sayso_run::RunId;

use super::verdict::Verdict;
use super::{Failure, Member, Target};

/// How often a group is tried again after a deadlock before its members are tried one by one, and
/// each of them before it is given up.
const TRIES: u32 = 5;

/// The first pause after a lost connection; doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

pub(super) struct Settle<T> {
    target: T,
    patience: Duration,
}

/// The error that a failure is for those who wait.
pub(super) fn message(failure: &Failure) -> AppendError {
    match failure {
        Failure::Unclear(why) | Failure::Again(why) | Failure::Down(why) => {
            AppendError::Unavailable(why.clone())
        }
        Failure::Late => AppendError::TooLate,
        Failure::Refused(why) => AppendError::Refused(why.clone()),
    }
}

impl<T: Target> Settle<T> {
    pub(super) fn new(target: T, patience: Duration) -> Self {
        Self { target, patience }
    }

    /// Writes a group and answers all of it.
    pub(super) async fn group(&mut self, mut group: Vec<Member>) {
        for _ in 0..TRIES {
            let failure = match self.target.write(&group).await {
                Ok(epochs) => return self.answer(group, epochs).await,
                Err(failure) => failure,
            };
            match failure {
                Failure::Again(why) => {
                    tracing::debug!(why, members = group.len(), "a group is tried again");
                }
                Failure::Unclear(why) => {
                    tracing::warn!(why, members = group.len(), "a commit is unclear");
                    group = self.clear_up(group, &why).await;
                    if group.is_empty() {
                        return;
                    }
                }
                Failure::Late | Failure::Refused(_) if group.len() > 1 => break,
                Failure::Down(_) | Failure::Late | Failure::Refused(_) => {
                    return self.refuse(group, &failure).await;
                }
            }
        }
        self.one_by_one(group).await;
    }

    /// Tries each member on its own, so that one bad member fails alone.
    async fn one_by_one(&mut self, group: Vec<Member>) {
        for member in group {
            let mut one = vec![member];
            let mut last = Failure::Again("tried too often".into());
            for _ in 0..TRIES {
                match self.target.write(&one).await {
                    Ok(epochs) => {
                        self.answer(std::mem::take(&mut one), epochs).await;
                        break;
                    }
                    Err(Failure::Unclear(why)) => {
                        one = self.clear_up(one, &why).await;
                        if one.is_empty() {
                            break;
                        }
                        last = Failure::Unclear(why);
                    }
                    Err(failure) => {
                        let again = matches!(failure, Failure::Again(_));
                        last = failure;
                        if !again {
                            break;
                        }
                    }
                }
            }
            self.refuse(one, &last).await;
        }
    }

    /// Answers a group that was written, as far as its members' conditions held.
    async fn answer(&mut self, group: Vec<Member>, epochs: Vec<Option<u64>>) {
        let mut refused = Vec::new();
        for (member, epoch) in group.into_iter().zip(epochs) {
            match epoch {
                Some(epoch) => member.answer(Ok(Appended { epoch })),
                None if needs_look(&member) => refused.push(member),
                None => {
                    let run = member.append.run.clone();
                    member.answer(Err(AppendError::Conflict(run)));
                }
            }
        }
        self.look_and_answer(refused).await;
    }

    /// Fails a group with one failure; what may have been written before is looked for first.
    async fn refuse(&mut self, group: Vec<Member>, failure: &Failure) {
        let may_be_written = matches!(failure, Failure::Late | Failure::Refused(_));
        let (unclear, clear): (Vec<_>, Vec<_>) = group
            .into_iter()
            .partition(|member| member.unclear && may_be_written);
        for member in clear {
            member.answer(Err(message(failure)));
        }
        if unclear.is_empty() {
            return;
        }
        match self.target.look(&unclear).await {
            Ok(found) => {
                for (member, found) in unclear.into_iter().zip(found) {
                    let answer = match Verdict::of(&member.append, &found) {
                        Verdict::Written(appended) => Ok(appended),
                        Verdict::Absent
                        | Verdict::Conflict
                        | Verdict::TooLate
                        | Verdict::SameKey(..) => Err(message(failure)),
                    };
                    member.answer(answer);
                }
            }
            Err(failure) => answer_all(unclear, &failure),
        }
    }

    async fn look_and_answer(&mut self, group: Vec<Member>) {
        if group.is_empty() {
            return;
        }
        match self.target.look(&group).await {
            Ok(found) => {
                for (member, found) in group.into_iter().zip(found) {
                    let answer = match Verdict::of(&member.append, &found) {
                        Verdict::Written(appended) => Ok(appended),
                        other => Err(other.into_error(&member.append)),
                    };
                    member.answer(answer);
                }
            }
            Err(failure) => answer_all(group, &failure),
        }
    }

    /// Finds out what became of a group whose commit is unclear, answers those for whom that is
    /// settled, and gives back those to try again. Waits for the database to come back.
    async fn clear_up(&mut self, mut group: Vec<Member>, why: &str) -> Vec<Member> {
        for member in &mut group {
            member.unclear = true;
        }
        let (since, mut pause) = (self.target.clock(), FIRST_PAUSE);
        let found = loop {
            match self.target.look(&group).await {
                Ok(found) => break found,
                Err(failure) if self.target.clock().duration_since(since) >= self.patience => {
                    tracing::error!(why, "the database did not come back: {failure:?}");
                    answer_all(group, &failure);
                    return Vec::new();
                }
                Err(_) => {
                    self.target.pause(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        };
        let mut again = Vec::new();
        for (member, found) in group.into_iter().zip(found) {
            match Verdict::of(&member.append, &found) {
                Verdict::Written(appended) => member.answer(Ok(appended)),
                Verdict::Absent => again.push(member),
                other => {
                    let error = other.into_error(&member.append);
                    member.answer(Err(error));
                }
            }
        }
        again
    }

    /// Moves published marks up; doing so twice does no harm.
    pub(super) async fn mark(&mut self, marks: &[(RunId, u64)]) -> Result<(), Failure> {
        let mut tries = 0;
        loop {
            match self.target.mark(marks).await {
                Err(Failure::Again(_) | Failure::Unclear(_)) if tries < TRIES => tries += 1,
                done => return done,
            }
        }
    }
}

fn answer_all(group: Vec<Member>, failure: &Failure) {
    for member in group {
        // The look failed, not the append: whatever it was, nothing can be said about it now.
        let error = match message(failure) {
            AppendError::Refused(why) => AppendError::Unavailable(why),
            error => error,
        };
        member.answer(Err(error));
    }
}

/// Whether "its conditions do not hold" can be anything but a conflict.
fn needs_look(member: &Member) -> bool {
    member.unclear
        || member.append.not_after.is_some()
        || (member.append.expected == 0 && member.append.start_key.is_some())
}
