//! One claim each; `fN` is the number of the failure in `tests/README.md`.

use super::*;

const TRIGGER_1: Effect = Effect::Trigger(Epoch(1));

#[test]
fn an_idle_job_sleeps_until_the_next_trigger_and_no_tick_is_needed_before() {
    let mut world = World::in_mode(Mode::Aligned);
    assert_eq!(world.coordinator.next_deadline(), Some(SECOND));
    assert_eq!(world.send(Event::Tick), []);
    assert_eq!(world.wait(), [TRIGGER_1]);
    assert_eq!(world.coordinator.next_deadline(), Some(11 * SECOND), "its time-out");
}

#[test]
fn an_unaligned_trigger_says_overtake_before_anybody_waits() {
    let mut world = World::in_mode(Mode::Unaligned);
    assert_eq!(world.wait(), [Effect::Overtake(Epoch(1)), TRIGGER_1]);
}

#[test]
fn an_adaptive_checkpoint_overtakes_when_it_was_not_captured_in_time() {
    let mut world = World::in_mode(Mode::Adaptive { after: SECOND / 2 });
    assert_eq!(world.wait(), [TRIGGER_1]);
    assert_eq!(world.wait(), [Effect::Overtake(Epoch(1))]);
    assert_eq!(world.now, SECOND * 3 / 2);
    let mut world = World::in_mode(Mode::Adaptive { after: Duration::ZERO });
    assert_eq!(world.wait(), [TRIGGER_1, Effect::Overtake(Epoch(1))], "0 is at once");
}

#[test]
fn an_adaptive_checkpoint_that_was_captured_in_time_is_not_overtaken() {
    let mut world = World::in_mode(Mode::Adaptive { after: SECOND / 2 });
    world.wait();
    world.captured(SOURCE, 1);
    world.captured(SINK, 1);
    assert_eq!(world.wait(), [Effect::Trigger(Epoch(2))]);
}

#[test]
fn the_minimum_pause_runs_from_completion() {
    let pause_min = 5 * SECOND;
    let mut world = World::new(config(Some(Schedule { pause_min, ..schedule(Mode::Aligned) })));
    world.complete_one();
    assert_eq!(world.coordinator.next_deadline(), Some(world.now + pause_min));
}

#[test]
fn f6_triggers_do_not_pile_up_behind_a_slow_task() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    world.captured(SOURCE, 1);
    world.now = 9 * SECOND;
    assert_eq!(world.send(Event::Tick), [], "E9: the sink has not captured 1");
    world.captured(SINK, 1);
    assert_eq!(world.send(Event::Tick), [Effect::Trigger(Epoch(2))], "1 is being written");
    world.captured(SOURCE, 2);
    world.captured(SINK, 2);
    world.now += SECOND;
    assert_eq!(world.send(Event::Tick), [], "E9: two are under way");
}

#[test]
fn f12_a_checkpoint_waits_for_every_transaction_that_it_lists() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    world.captured(SOURCE, 1);
    world.captured(SINK, 1);
    assert_eq!(world.durable(1), [], "E5: its transaction is not prepared");
    assert_eq!(world.prepared(1), [Effect::Publish(Epoch(1))]);
}

#[test]
fn f12_the_transaction_of_an_aborted_epoch_is_waited_for_by_the_next() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    // The sink cut 1, but its report never came.
    world.write_failed(1);
    world.wait();
    world.captured(SOURCE, 2);
    world.captured(SINK, 2);
    world.durable(2);
    assert_eq!(world.prepared(2), [], "E6: 2 lists the transaction of epoch 1 too");
    assert_eq!(world.prepared(1), [Effect::Publish(Epoch(2))]);
}

#[test]
fn a_report_older_than_the_confirmation_of_what_it_lists_waits_for_nothing() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    world.write(1);
    world.published(1);
    world.wait();
    let late = world.clone();
    world.committed(1);
    // What the sink listed at its cut is confirmed when its report comes.
    world.committed = late.committed;
    world.captured(SOURCE, 2);
    world.captured(SINK, 2);
    world.committed = Epoch(1);
    world.prepared(2);
    assert_eq!(world.durable(2), [Effect::Publish(Epoch(2))]);
}

#[test]
fn f13_the_first_checkpoint_of_a_life_waits_for_its_interval_only() {
    let start = Epoch(8);
    let mut world = World::new(Config { start, ..config(Some(schedule(Mode::Unaligned))) });
    assert_eq!(world.wait(), [Effect::Overtake(start), Effect::Trigger(start)]);
    assert_eq!(world.now, SECOND);
}

#[test]
fn f19_a_commit_that_nobody_confirms_fails_the_job_whose_restore_repeats_it() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    world.write(1);
    world.published(1);
    let announced = world.now;
    while world.verdict.is_none() {
        if world.wait() == [Effect::Trigger(world.last())] {
            let epoch = world.last().0;
            world.write(epoch);
            world.published(epoch);
        }
    }
    let transaction = Transaction { task: SINK, epoch: Epoch(1) };
    let failure = Failure::Commit { transaction };
    assert_eq!(world.verdict, Some(Effect::Fail(failure)));
    assert_eq!(world.now, announced + 40 * SECOND, "later announcements do not prolong it");
}

#[test]
#[should_panic(expected = "E6")]
fn f20_a_commit_before_its_checkpoint_is_complete_is_a_fault_of_the_engine() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    world.write(1);
    world.committed(1);
}

#[test]
fn f20_nothing_is_announced_before_its_manifest_is_known_to_be_durable() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    assert_eq!(world.write(1), [Effect::Publish(Epoch(1))]);
    assert_eq!(world.published(1), [Effect::Announce(Epoch(1))]);
    assert_eq!(world.published(1), [], "told twice");
}

#[test]
fn f21_the_job_ends_when_the_commits_of_its_last_epoch_are_confirmed() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    world.reported(SOURCE, 1, true);
    world.reported(SINK, 1, false);
    world.prepared(1);
    world.durable(1);
    world.published(1);
    assert_eq!(world.committed(1), [], "the sink had not ended at 1");
    world.wait();
    world.reported(SOURCE, 2, true);
    world.reported(SINK, 2, true);
    world.prepared(2);
    world.durable(2);
    assert_eq!(world.published(2), [Effect::Announce(Epoch(2))]);
    assert_eq!(world.committed(1), [], "K3: 2 is the last");
    assert_eq!(world.committed(2), [Effect::Stop]);
}

#[test]
fn f21_a_later_checkpoint_may_confirm_the_last_one() {
    let mut world = World::in_mode(Mode::Aligned);
    for epoch in [1, 2] {
        world.wait();
        world.reported(SOURCE, epoch, true);
        world.reported(SINK, epoch, true);
        world.prepared(epoch);
        world.durable(epoch);
    }
    assert_eq!(world.published(1), [Effect::Announce(Epoch(1))]);
    assert_eq!(world.published(2), [Effect::Announce(Epoch(2))], "it was under way");
    assert_eq!(world.clone().committed(2), [Effect::Stop]);
    assert_eq!(world.committed(1), [Effect::Stop], "K3: 1 is the last");
}

#[test]
fn a_job_without_sinks_stops_when_its_last_checkpoint_is_complete() {
    let sinks = BTreeSet::new();
    let mut world = World::new(Config { sinks, ..config(Some(schedule(Mode::Aligned))) });
    world.wait();
    world.committed = Epoch(1); // there is nothing to commit
    world.reported(SOURCE, 1, true);
    world.reported(SINK, 1, true);
    world.durable(1);
    assert_eq!(world.published(1), [Effect::Announce(Epoch(1)), Effect::Stop]);
}

#[test]
fn when_all_tasks_have_ended_the_last_checkpoint_does_not_wait_for_the_interval() {
    let mut world = World::in_mode(Mode::Aligned);
    world.send(Event::Ended { task: SOURCE });
    assert_eq!(world.send(Event::Tick), []);
    world.send(Event::Ended { task: SINK });
    assert_eq!(world.send(Event::Tick), [TRIGGER_1]);
    world.captured(SOURCE, 1);
    world.captured(SINK, 1);
    assert_eq!(world.send(Event::Tick), [], "1 may be the last: 2 waits for its time");
}

#[test]
fn a_job_without_checkpoints_stops_when_all_tasks_have_ended() {
    let mut world = World::new(config(None));
    assert_eq!(world.coordinator.next_deadline(), None);
    assert_eq!(world.send(Event::Tick), []);
    assert_eq!(world.send(Event::Ended { task: SINK }), []);
    assert_eq!(world.send(Event::Ended { task: SINK }), [], "told twice");
    assert_eq!(world.send(Event::Ended { task: SOURCE }), [Effect::Stop]);
}

#[test]
fn f34_a_life_certifies_only_what_it_published_itself() {
    let start = Epoch(5);
    let mut world = World::new(Config { start, ..config(Some(schedule(Mode::Aligned))) });
    // Late results of the life before: it had triggered 5, and 4 was restored.
    assert_eq!(world.published(5), []);
    assert_eq!(world.published(4), []);
    world.captured(SOURCE, 5);
    world.captured(SINK, 5);
    world.durable(5);
    assert_eq!(world.wait(), [Effect::Trigger(start)]);
    assert_eq!(world.prepared(5), [], "E5: nothing of it was captured in this life");
}

#[test]
fn f35_a_failed_checkpoint_is_reported_as_failed_and_with_its_reason() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    world.captured(SOURCE, 1);
    world.captured(SINK, 1);
    world.wait();
    let run = Effect::Abort { from: Epoch(1), to: Epoch(2) };
    assert_eq!(world.write_failed(1), [run]);
    assert_eq!(world.durable(1), [], "late reports are ignored");
    assert_eq!(world.durable(2), []);
    assert_eq!(world.write_failed(2), [], "one failure");
    let why: Vec<_> = world.coordinator.history().map(|report| report.outcome.clone()).collect();
    let at = world.now;
    let failed = Reason::WriteFailed { worker: 0, why: "no space left".into() };
    let expected = [failed, Reason::BuiltOn(Epoch(1))].map(|why| Outcome::Aborted { at, why });
    assert_eq!(why, expected);
}

#[test]
fn more_failures_in_a_row_than_are_tolerated_fail_the_job_and_a_complete_one_forgives() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    world.prepared(1);
    world.write_failed(1);
    assert_eq!(world.complete_one(), 2);
    world.wait();
    assert_eq!(world.write_failed(3), [Effect::Abort { from: Epoch(3), to: Epoch(3) }]);
    world.wait();
    let effects = world.write_failed(4);
    let [Effect::Fail(failure)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(
        failure.to_string(),
        "2 checkpoints failed in a row; checkpoint 4: the segment of worker 0 could not be \
         written: no space left"
    );
}

#[test]
fn f38_a_lost_report_ends_in_a_time_out_that_says_what_is_missing() {
    let mut world = World::in_mode(Mode::Unaligned);
    world.wait();
    world.captured(SOURCE, 1);
    assert_eq!(world.wait(), [Effect::Abort { from: Epoch(1), to: Epoch(1) }]);
    assert_eq!(world.now, 11 * SECOND);
    let outcome = world.coordinator.history().next().map(|report| report.outcome.clone());
    let why = Reason::TimedOut { after: 10 * SECOND, uncaptured: vec![SINK], holders: vec![] };
    assert_eq!(outcome, Some(Outcome::Aborted { at: world.now, why }));
    assert_eq!(world.captured(SINK, 1), [], "late reports are ignored");
}

#[test]
fn f38_the_time_out_counts_until_publishing_begins() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    world.captured(SOURCE, 1);
    world.captured(SINK, 1);
    world.now = 11 * SECOND;
    assert_eq!(
        world.send(Event::Tick),
        [Effect::Abort { from: Epoch(1), to: Epoch(1) }],
        "captured, and never durable"
    );
}

#[test]
fn f38_what_is_being_published_is_not_aborted_but_may_fail_the_job() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    world.write(1);
    assert_eq!(world.wait(), [Effect::Trigger(Epoch(2))]);
    assert_eq!(world.wait(), [Effect::Abort { from: Epoch(2), to: Epoch(2) }]);
    assert_eq!(world.write_failed(1), [], "E9");
    while world.verdict.is_none() {
        world.wait();
        world.prepared(2);
        world.write(world.last().0);
    }
    assert_eq!(world.verdict, Some(Effect::Fail(Failure::Publish(Epoch(1)))));
}

#[test]
fn f38_a_prepare_that_hangs_fails_the_job() {
    let mut world =
        World::new(config(Some(Schedule { timeout: 60 * SECOND, ..schedule(Mode::Aligned) })));
    world.wait();
    world.captured(SINK, 1);
    let transaction = Transaction { task: SINK, epoch: Epoch(1) };
    let failure = Failure::Prepare { transaction, why: None };
    assert_eq!(world.wait(), [Effect::Fail(failure)]);
    assert_eq!(world.now, 21 * SECOND);
}

#[test]
fn a_prepare_that_fails_is_no_tolerable_checkpoint_failure() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    let transaction = Transaction { task: SINK, epoch: Epoch(1) };
    let why = "connection reset".to_string();
    let effects = world.send(Event::PrepareFailed { transaction, why: why.clone() });
    assert_eq!(effects, [Effect::Fail(Failure::Prepare { transaction, why: Some(why) })]);
}

#[test]
fn a_dry_sink_makes_all_tasks_overtake() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    assert_eq!(world.dry(1), [Effect::Overtake(Epoch(1))]);
    assert_eq!(world.dry(1), [], "told twice");
    world.captured(SOURCE, 1);
    world.captured(SINK, 1);
    assert_eq!(world.dry(1), [], "captured");
}

#[test]
fn a_savepoint_is_aligned_in_every_mode_and_waits_for_neither_interval_nor_overtaking() {
    for mode in [Mode::Unaligned, Mode::Adaptive { after: Duration::ZERO }] {
        let mut world = World::in_mode(mode);
        world.send(Event::Requested(Request::Savepoint));
        assert_eq!(world.send(Event::Tick), [TRIGGER_1]);
        assert_eq!(world.dry(1), [], "K2");
    }
}

#[test]
fn a_savepoint_waits_until_the_checkpoint_before_it_is_complete_and_committed() {
    let mut world = World::in_mode(Mode::Aligned);
    world.wait();
    world.send(Event::Requested(Request::Savepoint));
    world.write(1);
    world.now += 2 * SECOND;
    assert_eq!(world.send(Event::Tick), [], "K2: 1 is being published");
    world.published(1);
    assert_eq!(world.send(Event::Tick), [], "K2: the sink still holds the transaction of 1");
    world.committed(1);
    assert_eq!(world.send(Event::Tick), [Effect::Trigger(Epoch(2))]);
    let request = world.coordinator.under_way().next().and_then(|report| report.request);
    assert_eq!(request, Some(Request::Savepoint));
}

#[test]
fn after_an_abort_a_savepoint_lets_an_ordinary_checkpoint_go_first() {
    let mut world = World::in_mode(Mode::Unaligned);
    world.wait();
    world.send(Event::Requested(Request::Savepoint));
    world.write_failed(1);
    assert_eq!(world.wait(), [Effect::Overtake(Epoch(2)), Effect::Trigger(Epoch(2))]);
    world.captured(SOURCE, 2);
    world.captured(SINK, 2);
    world.prepared(1);
    world.prepared(2);
    world.durable(2);
    world.published(2);
    world.committed(2);
    assert_eq!(world.wait(), [Effect::Trigger(Epoch(3))], "K2: the savepoint");
}

#[test]
fn to_stop_takes_one_more_checkpoint_and_its_commits() {
    let mut world = World::in_mode(Mode::Unaligned);
    world.send(Event::Requested(Request::Stop));
    world.send(Event::Tick);
    world.now += 5 * SECOND;
    world.write(1);
    assert_eq!(world.send(Event::Tick), [], "nothing follows the last one");
    assert_eq!(world.published(1), [Effect::Announce(Epoch(1))]);
    assert_eq!(world.committed(1), [Effect::Stop]);
    assert_eq!(world.coordinator.next_deadline(), None);
}

#[test]
fn requests_are_served_in_their_order_so_that_none_starves_another() {
    let mut world = World::in_mode(Mode::Aligned);
    world.send(Event::Requested(Request::Checkpoint));
    world.send(Event::Requested(Request::Stop));
    assert_eq!(world.send(Event::Tick), [TRIGGER_1]);
    world.send(Event::Requested(Request::Checkpoint));
    world.write(1);
    world.published(1);
    world.committed(1);
    assert_eq!(world.send(Event::Tick), [Effect::Trigger(Epoch(2))]);
    let request = world.coordinator.under_way().next().and_then(|report| report.request);
    assert_eq!(request, Some(Request::Stop));
}

#[test]
fn to_stop_with_a_savepoint_takes_an_aligned_one_and_is_tried_again_when_it_fails() {
    let mut world = World::in_mode(Mode::Unaligned);
    world.send(Event::Requested(Request::StopWithSavepoint));
    assert_eq!(world.send(Event::Tick), [TRIGGER_1]);
    assert_eq!(world.dry(1), [], "K2");
    world.write_failed(1);
    assert_eq!(world.wait(), [Effect::Overtake(Epoch(2)), Effect::Trigger(Epoch(2))]);
    world.write(2);
    world.prepared(1);
    world.published(2);
    world.committed(2);
    assert_eq!(world.wait(), [Effect::Trigger(Epoch(3))], "K2: the savepoint");
    world.write(3);
    world.published(3);
    assert_eq!(world.committed(3), [Effect::Stop]);
}

#[test]
fn to_stop_is_tried_again_when_its_checkpoint_fails() {
    let mut world = World::in_mode(Mode::Aligned);
    world.send(Event::Requested(Request::Stop));
    world.send(Event::Tick);
    world.write_failed(1);
    assert_eq!(world.wait(), [Effect::Trigger(Epoch(2))]);
    world.write(2);
    world.prepared(1);
    world.published(2);
    assert_eq!(world.committed(2), [Effect::Stop]);
}

#[test]
fn a_dead_worker_fails_the_job() {
    let mut world = World::in_mode(Mode::Aligned);
    let why = "operator \"invoices\" panicked".to_string();
    let effects = world.send(Event::WorkerFailed { why: why.clone() });
    assert_eq!(effects, [Effect::Fail(Failure::Worker(why))]);
    assert_eq!(world.coordinator.next_deadline(), None);
    assert_eq!(world.send(Event::Tick), [], "nothing follows");
}

#[test]
fn times_come_from_the_stamps_in_the_reports() {
    let mut world = World::in_mode(Mode::Unaligned);
    world.wait();
    let triggered = world.now;
    world.captured(SOURCE, 1);
    world.now += SECOND; // this one is seen late
    let stats = |ms| CutStats {
        captured: triggered + Duration::from_millis(ms),
        pause: Duration::from_micros(ms),
        ..CutStats::default()
    };
    for (task, ms) in [(SOURCE, 3), (SINK, 7)] {
        let cut = crate::checkpoint::gate::Cut::Overtaken;
        let (worker, epoch, has_ended, listed) = (0, Epoch(1), false, vec![]);
        let (base, stats) = (Epoch(0), stats(ms));
        let report = Report { task, worker, epoch, cut, has_ended, listed, base, stats };
        world.send(Event::Captured(report));
    }
    let report = world.coordinator.under_way().next().expect("it is being written").clone();
    assert_eq!(report.captured, Some(triggered + Duration::from_millis(7)));
    assert!(report.has_overtaken());
}

#[test]
fn nothing_is_pruned_on_which_a_task_may_still_build() {
    let mut world = World::in_mode(Mode::Aligned);
    for epoch in 1..=3 {
        assert_eq!(world.coordinator.base_min(), Epoch(epoch).previous().previous());
        world.complete_one();
    }
    world.wait();
    world.captured(SOURCE, 4);
    assert_eq!(world.coordinator.base_min(), Epoch(2), "the sink has said 2 last");
}

#[test]
fn the_history_is_bounded() {
    let mut world = World::in_mode(Mode::Aligned);
    for _ in 0..HISTORY_MAX + 3 {
        world.complete_one();
    }
    assert_eq!(world.coordinator.history().count(), HISTORY_MAX);
    let oldest = world.coordinator.history().next().map(|report| report.epoch);
    assert_eq!(oldest, Some(Epoch(4)));
}
