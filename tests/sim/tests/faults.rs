//! Ten checks, each left out once: the simulator misses every one of them within a thousand seeds.

use sayso_run::hooks::Fault;
use sayso_sim::{Options, simulate};

/// The first seed that breaks a promise, of those that may be needed.
fn first_broken(fault: Fault) -> Option<(u64, String)> {
    let options = Options {
        fault: Some(fault),
        keep_trace: false,
    };
    (0..1000).find_map(|seed| Some((seed, simulate(seed, options).broken?)))
}

fn is_found(fault: Fault) {
    let Some((seed, promise)) = first_broken(fault) else {
        panic!("no seed misses the check `{}`", fault.as_str());
    };
    println!("{}: seed {seed}: {promise}", fault.as_str());
}

macro_rules! faults_are_found {
    ($($name:ident: $fault:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            is_found(Fault::$fault);
        })*
    };
}

faults_are_found!(
    appends_that_ignore_the_epoch: NoEpochCheck,
    a_lease_given_back_whatever_was_written: ReleaseWithoutSequence,
    a_call_sent_without_the_fence: SendWithoutFence,
    an_expiry_by_a_local_clock: ExpiryByLocalClock,
    a_wake_up_lost_with_no_sweep: NoSweep,
    a_decision_accepted_twice: DecisionTwice,
    a_result_refused_for_its_epoch: ResultRefusedForEpoch,
    a_completion_with_an_unseen_message: CompletionWithUnseenMessage,
    a_takeover_of_a_live_workers_started_call: TakeoverOfLiveWorker,
    a_group_commit_that_drops_a_member: GroupDropsMember,
);

/// Every fault there is has its test here.
#[test]
fn no_fault_is_left_out() {
    assert_eq!(Fault::ALL.len(), 10);
}
