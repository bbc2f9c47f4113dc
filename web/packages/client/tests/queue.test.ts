import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Maitred, Places, ReservationQueue, type BookingRequest, type QueueView } from '../src'
import { FakeServer } from './server'

const WISH: BookingRequest = { venueId: '1', date: '2026-12-24', time: '19:00', partySize: 2, payment: 'deposit' }

class Memory {
  private kept = new Map<string, string>()
  getItem = (name: string) => this.kept.get(name) ?? null
  setItem = (name: string, value: string) => void this.kept.set(name, value)
  removeItem = (name: string) => void this.kept.delete(name)
}

let server: FakeServer
let memory: Memory
let seen: QueueView[]

beforeEach(() => {
  vi.useFakeTimers()
  server = new FakeServer(5)
  memory = new Memory()
  seen = []
})

afterEach(() => {
  server.stop()
  vi.useRealTimers()
})

/** A page with this browser's memory. */
function page(): ReservationQueue {
  const api = new Maitred({ fetch: server.fetch, token: () => 'token' })
  return new ReservationQueue({ api, places: new Places(memory), random: () => 0.5, changed: (view) => seen.push(view) })
}

const seconds = (n: number) => vi.advanceTimersByTimeAsync(n * 1_000)

test('counts down by listening, then has a reservation', async () => {
  const queue = page()
  void queue.start(WISH)
  await seconds(3.5)
  expect(queue.view).toMatchObject({ state: 'waiting', number: 6, ahead: 2, estimatedWaitSeconds: 3, connection: 'live' })
  expect(queue.view.progress).toBeCloseTo(2 / 3)
  await seconds(5)
  expect(queue.view).toMatchObject({ state: 'seated', reservation: { id: 'r1' } })
  const aheads = seen.flatMap((view) => view.ahead ?? [])
  expect(aheads).toEqual([...aheads].sort((a, b) => b - a))
  expect(server.count('GET /api/tickets/t1-6/events')).toBe(1)
  expect(server.calls).not.toContain('GET /api/tickets/t1-6')
  expect(new Places(memory).all()).toEqual([])
})

test('a refused guest gets the receipt', async () => {
  server.places = 0
  const queue = page()
  void queue.start(WISH)
  await seconds(10)
  expect(queue.view).toMatchObject({ state: 'refused', receipt: { number: 6, left: 0 }, problem: { code: 'not-enough-places' } })
})

test('where streams do not work it asks, every two to four seconds', async () => {
  server.streams = false
  server.places = 1
  const queue = page()
  void queue.start(WISH)
  await seconds(5)
  expect(queue.view).toMatchObject({ state: 'waiting', connection: 'polling' })
  await seconds(6)
  expect(queue.view.state).toBe('seated')
  const looks = server.calls.filter((call) => call === 'GET /api/tickets/t1-6').length
  expect(looks).toBeGreaterThanOrEqual(2)
  expect(looks).toBeLessThanOrEqual(5)
})

test('a connection that breaks is not an error', async () => {
  const queue = page()
  void queue.start(WISH)
  await seconds(1.5)
  server.hangUpAll()
  await seconds(9)
  expect(queue.view.state).toBe('seated')
  expect(seen.map((view) => view.state)).not.toContain('paused')
})

test('ten tries without an answer, then it waits for the person, and the place is kept', async () => {
  const queue = page()
  void queue.start(WISH)
  await seconds(1.5)
  server.up = false
  server.hangUpAll()
  await seconds(120)
  expect(queue.view.state).toBe('paused')
  const tries = server.calls.length
  await seconds(600)
  expect(server.calls.length).toBe(tries)
  server.up = true
  const place = new Places(memory).all()[0]!
  expect(place.ticket).toBe('t1-6')
  void queue.resume(place)
  await seconds(10)
  expect(queue.view.state).toBe('seated')
})

test('coming back on line looks at once', async () => {
  server.pace = 1_000
  const queue = page()
  void queue.start(WISH)
  await seconds(0.5)
  server.up = false
  server.hangUpAll()
  await seconds(1)
  expect(queue.view.connection).toBe('away')
  server.up = true
  queue.wake()
  await seconds(0.1)
  expect(queue.view.connection).toBe('live')
})

test('a page that is loaded again has the same place', async () => {
  const before = page()
  void before.start(WISH)
  await seconds(2.5)
  before.stop()
  const after = page()
  void after.resume(new Places(memory).all()[0]!)
  await seconds(0.5)
  expect(after.view).toMatchObject({ state: 'waiting', number: 6, place: { from: 5 } })
  await seconds(6)
  expect(after.view.state).toBe('seated')
  expect(server.count('POST')).toBe(1)
})

test('a tab closed before the answer came asks with the same key', async () => {
  server.up = false
  const before = page()
  void before.start(WISH)
  await seconds(0.5)
  before.stop()
  server.up = true
  const place = new Places(memory).all()[0]!
  expect(place.ticket).toBeUndefined()
  const [one, two] = [page(), page()]
  void one.resume({ ...place })
  void two.resume({ ...place })
  await seconds(1)
  expect(one.view.number).toBe(6)
  expect(two.view.number).toBe(6)
})

test('a server that died and came back gets the same wish, and the page goes on', async () => {
  const queue = page()
  void queue.start(WISH)
  await seconds(2.5)
  server.restart()
  await seconds(8)
  expect(queue.view.state).toBe('seated')
  expect(server.count('POST')).toBe(2)
})

test('a second press changes nothing', async () => {
  const queue = page()
  void queue.start(WISH)
  void queue.start(WISH)
  await seconds(1)
  expect(server.count('POST')).toBe(1)
})

test('leaving the line', async () => {
  const queue = page()
  void queue.start(WISH)
  await seconds(1)
  await queue.leave()
  expect(queue.view.state).toBe('left')
  expect(new Places(memory).all()).toEqual([])
})

test('what is not possible is told, and not tried again', async () => {
  const queue = page()
  await queue.start({ ...WISH, partySize: 101 })
  expect(queue.view).toMatchObject({ state: 'refused', problem: { code: 'invalid-request' } })
  expect(server.count('POST')).toBe(1)
})

test('nothing of the token is in an address', async () => {
  const queue = page()
  void queue.start(WISH)
  await seconds(10)
  expect(server.calls.join()).not.toContain('token')
})
