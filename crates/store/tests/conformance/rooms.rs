//! Waiting rooms: numbers without gaps whoever gives them out, one live token a person, and payment that ends one.

use std::collections::HashSet;
use std::sync::Arc;

use booking::room::{Answer, Changes, Opening, Order, Room, Seed, State, Terms, Token, Wish, decide, entry};
use booking::*;
use jiff::{SignedDuration, Timestamp};
use store::{CommitError, Error, NewOpening, RoomBatch, Store};
use tokio::task::JoinSet;

use super::world::{World, done, person, places};

const TERMS: Terms = Terms { enabled: true, size: 3, idle_seconds: 180, total_seconds: 600 };

fn opening(opens_at: Timestamp, order: Order) -> NewOpening {
    NewOpening { opens_at, order, seed: Seed([9; 32]), terms: TERMS }
}

/// What a process does with a batch: read, open what is due, decide, store; again while somebody else was faster.
async fn run(store: &Store, venue: VenueId, wishes: &[Wish], now: Timestamp) -> Result<Vec<Answer>, Error> {
    loop {
        match attempt(store, venue, wishes, now).await {
            Err(CommitError::Stale | CommitError::Store(Error::Unavailable(_))) => {}
            Err(CommitError::Store(error)) => return Err(error),
            done => return Ok(done.unwrap()),
        }
    }
}

async fn attempt(
    store: &Store,
    venue: VenueId,
    wishes: &[Wish],
    now: Timestamp,
) -> Result<Vec<Answer>, CommitError> {
    let people = wishes.iter().filter_map(|wish| match wish {
        Wish::Ask(person) | Wish::Leave(person) => Some(*person),
        Wish::Tick => None,
    });
    let people: HashSet<_> = people.collect();
    let mut room = store.room(venue, people.into_iter().collect()).await?.unwrap();
    if room.opening.is_due(now) {
        store.open_room(room.opening.id, room.opening.version, now, 7).await?;
        return Err(CommitError::Stale);
    }
    let (answers, changes) = decide(&mut room, wishes, now);
    store.commit_room(RoomBatch { opening: room.opening, changes, at: now }).await?;
    Ok(answers)
}

fn issued(answer: &Answer) -> Token {
    match answer {
        Answer::Issued(token) => *token,
        other => panic!("{other:?}"),
    }
}

async fn with_room() -> World {
    let world = World::new(places(20)).await;
    world.store.set_room(world.venue.id, TERMS, opening(world.now, Order::Arrival)).await.unwrap();
    world
}

impl World {
    async fn wish(&self, wishes: &[Wish]) -> Vec<Answer> {
        run(&self.store, self.venue.id, wishes, self.now).await.unwrap()
    }

    async fn room(&self) -> Room {
        self.store.room(self.venue.id, vec![]).await.unwrap().unwrap()
    }

    async fn token(&self, who: u32) -> Option<Token> {
        let opening = self.store.opening(self.venue.id).await.unwrap().unwrap();
        self.store.token(opening.id, person(who)).await.unwrap()
    }
}

#[tokio::test]
async fn people_are_let_in_by_number_and_leave_room_for_the_next() {
    let world = with_room().await;
    assert!(world.store.opening(VenueId(99)).await.unwrap().is_none());
    let wishes: Vec<_> = (1..=8).map(|n| Wish::Ask(person(n))).collect();
    let answers = world.wish(&wishes).await;
    let told: Vec<_> = answers.iter().map(issued).map(|t| (t.number.unwrap(), t.state)).collect();
    let expected = (1..=8).map(|n| (n, if n <= 3 { State::Inside } else { State::Waiting }));
    assert_eq!(told, expected.collect::<Vec<_>>());
    let known = issued(&answers[6]);
    assert_eq!(world.wish(&[Wish::Ask(person(7))]).await, [Answer::AlreadyIssued(known)]);

    // Two leave before their turn, one inside makes room.
    world.wish(&[Wish::Leave(person(4)), Wish::Leave(person(6)), Wish::Leave(person(2))]).await;
    let room = world.room().await;
    let inside: Vec<_> = room.inside.iter().map(|token| token.number.unwrap()).collect();
    assert_eq!((inside, room.opening.let_in), (vec![1, 3, 5], 5));
    assert_eq!(world.store.left_waiting(room.opening.id).await.unwrap(), [6]);
    assert_eq!(world.token(6).await.unwrap().state, State::Left);
    assert_eq!(issued(&world.wish(&[Wish::Ask(person(6))]).await[0]).number, Some(9));
    assert_eq!(world.store.due_rooms(world.now, 10).await.unwrap(), []);
}

#[tokio::test]
async fn whoever_is_idle_is_due_and_whoever_was_seen_is_not() {
    let mut world = with_room().await;
    world.wish(&[Wish::Ask(person(1)), Wish::Ask(person(2))]).await;
    world.wait(100);
    let seen = world.token(1).await.unwrap();
    assert!(world.store.seen(seen, world.now).await.unwrap());
    let before = world.room().await;
    world.wait(100);
    assert_eq!(world.store.due_rooms(world.now, 10).await.unwrap(), [world.venue.id]);
    world.wish(&[Wish::Tick]).await;
    assert_eq!(world.token(1).await.unwrap().state, State::Inside);
    assert_eq!(world.token(2).await.unwrap().state, State::Lapsed);
    assert_eq!(world.store.due_rooms(world.now, 10).await.unwrap(), []);
    assert!(!world.store.seen(world.token(2).await.unwrap(), world.now).await.unwrap());

    // What was decided from an old copy, or about somebody who has been seen since, is not stored.
    let batch = RoomBatch { opening: before.opening, changes: Changes::default(), at: world.now };
    assert!(matches!(world.store.commit_room(batch).await, Err(CommitError::Stale)));
    let mut room = world.room().await;
    world.wait(200);
    let (_, changes) = decide(&mut room, &[Wish::Tick], world.now);
    assert_eq!(changes.ended.len(), 1);
    world.store.seen(world.token(1).await.unwrap(), world.now).await.unwrap();
    let batch = RoomBatch { opening: room.opening, changes, at: world.now };
    assert!(matches!(world.store.commit_room(batch).await, Err(CommitError::Stale)));
}

#[tokio::test]
async fn paying_ends_the_token_in_the_same_transaction() {
    let world = with_room().await;
    world.wish(&[Wish::Ask(person(1)), Wish::Ask(person(2))]).await;
    world.give(1, 100_000).await;
    let seated = world.seat(world.slot(12), 1, 2).await;
    world.seat(world.slot(12), 2, 2).await;
    let slot = world.load(world.slot(12)).await;
    let (mut stale, _) = world.decide(&slot, &[world.pay(&seated)]).await;
    stale.slot_version = 99;
    assert!(matches!(world.store.commit(stale).await, Err(CommitError::Stale)));
    assert_eq!(world.token(1).await.unwrap().state, State::Inside, "nothing of what was not stored");
    world.run(&[world.pay(&seated)]).await;
    assert_eq!(world.token(1).await.unwrap().state, State::Done);
    assert_eq!(world.token(2).await.unwrap().state, State::Inside);

    // A change of what was paid long ago ends nothing.
    let again = issued(&world.wish(&[Wish::Ask(person(1))]).await[0]);
    let paid = world.row(seated.id).await.unwrap();
    done(&world.run(&[world.change(&paid, world.slot(12), 3)]).await[0]);
    assert_eq!(world.token(1).await, Some(again));
}

#[tokio::test]
async fn a_new_opening_begins_numbers_anew_and_keeps_the_terms() {
    let world = with_room().await;
    world.wish(&[Wish::Ask(person(1))]).await;
    let before = world.room().await.opening;
    let later = world.now + SignedDuration::from_secs(60);
    let new = NewOpening { terms: Terms::default(), ..opening(later, Order::Draw) };
    let new = world.store.add_opening(world.venue.id, new).await.unwrap();
    assert!(new.id > before.id && !new.opened);
    assert_eq!((new.terms, new.order, new.numbers), (TERMS, Order::Draw, 0));
    assert_eq!(world.token(1).await, None);
    let batch = RoomBatch { opening: before, changes: Changes::default(), at: world.now };
    assert!(matches!(world.store.commit_room(batch).await, Err(CommitError::Stale)));
    let terms = Terms { size: 1, ..TERMS };
    let changed = world.store.set_room(world.venue.id, terms, opening(later, Order::Arrival)).await.unwrap();
    assert_eq!((changed.id, changed.terms, changed.order), (new.id, terms, Order::Draw));
}

/// Forty come before the opening, some leave, two processes open it at the same moment, seven at a time.
async fn opened(order: Order) -> (World, Opening, Vec<Token>) {
    let mut world = World::new(places(20)).await;
    let opens_at = world.now + SignedDuration::from_secs(60);
    let made = world.store.add_opening(world.venue.id, opening(opens_at, order)).await.unwrap();
    assert_eq!(made.terms, TERMS);
    for n in 1..=40 {
        assert_eq!(issued(&world.wish(&[Wish::Ask(person(n))]).await[0]).number, None);
    }
    world.wish(&[Wish::Leave(person(5)), Wish::Leave(person(40))]).await;
    assert!(world.store.due_rooms(world.now, 10).await.unwrap().is_empty());
    world.wait(60);
    assert_eq!(world.store.due_rooms(world.now, 10).await.unwrap(), [world.venue.id]);
    let mut late = JoinSet::new();
    for n in 41..=60 {
        let (store, venue, now) = (world.database.open().await, world.venue.id, world.now);
        late.spawn(async move { run(&store, venue, &[Wish::Ask(person(n))], now).await.unwrap() });
    }
    late.join_all().await;
    let mut tokens = vec![];
    for n in 1..=60 {
        tokens.push(world.token(n).await.unwrap());
    }
    let now = world.room().await.opening;
    let mut numbers: Vec<_> = tokens.iter().filter_map(|token| token.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=58).collect::<Vec<_>>());
    assert!(tokens[40..].iter().all(|token| token.number.unwrap() > 38), "after those who came before");
    assert_eq!((now.opened, now.numbers, now.arrivals, now.let_in), (true, 58, 60, 3));
    (world, now, tokens)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_opening_by_arrival_gives_numbers_by_arrival() {
    let (world, opening, tokens) = opened(Order::Arrival).await;
    assert!(tokens[..40].iter().filter_map(|token| token.number).is_sorted());
    assert_eq!(world.store.drawn(opening.id, 0, 10).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_opening_by_draw_gives_numbers_by_lot() {
    let (world, opening, tokens) = opened(Order::Draw).await;
    let mut drawn: Vec<_> = tokens[..40].iter().filter(|token| token.number.is_some()).collect();
    drawn.sort_by_key(|token| opening.seed.lot(entry(opening.id, token.person)));
    assert!(drawn.iter().zip(1..).all(|(token, n)| token.number == Some(n)));
    let drawn: Vec<_> = drawn.iter().map(|token| (token.number.unwrap(), token.person)).collect();
    let listed = [
        world.store.drawn(opening.id, 0, 20).await.unwrap(),
        world.store.drawn(opening.id, 20, 20).await.unwrap(),
    ];
    assert_eq!(listed.concat(), drawn);
}

/// A hundred people ask through two processes, each on its own; the numbers that they were told, or how many were told none.
async fn rush(world: &World, processes: [Arc<Store>; 2]) -> (Vec<u64>, usize) {
    let mut asking = JoinSet::new();
    for n in 1..=100 {
        let (store, venue, now) = (processes[n as usize % 2].clone(), world.venue.id, world.now);
        asking.spawn(async move { run(&store, venue, &[Wish::Ask(person(n))], now).await });
    }
    let told = asking.join_all().await;
    let failed = told.iter().filter(|told| told.is_err()).count();
    let mut numbers: Vec<_> = told.iter().flatten().map(|told| issued(&told[0]).number.unwrap()).collect();
    numbers.sort_unstable();
    (numbers, failed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_people_at_two_processes_get_the_numbers_up_to_a_hundred() {
    let world = with_room().await;
    world.wish(&[Wish::Tick]).await;
    let processes = [world.database.open().await, world.database.open().await];
    assert_eq!(rush(&world, processes).await, ((1..=100).collect(), 0));
    assert_eq!(issued(&world.wish(&[Wish::Ask(person(101))]).await[0]).number, Some(101));
}

/// The control: without the condition, reading and then writing loses numbers, or gives them out twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_condition_numbers_are_lost_or_given_out_twice() {
    let world = with_room().await;
    world.wish(&[Wish::Tick]).await;
    let careless = [world.database.open_careless().await, world.database.open_careless().await];
    let (numbers, failed) = rush(&world, careless).await;
    assert!(failed > 0 || numbers != (1..=100).collect::<Vec<_>>(), "{numbers:?}");
}
