/**
 * A wish for a reservation, from the button to the answer. The ticket is the place: it survives reloads, sleep, lost
 * connections and a restarted server, because the wish, its key and its ticket are kept in the browser.
 */
import { freshKey, isTicket, type BookingRequest, type Maitred, type Receipt, type Reservation, type Ticket } from './client'
import { follow, mayPass, PACE, Waker, type Connection, type Pace } from './follow'
import { GaveUp, Problem, type ProblemBody } from './problem'
import { Places, type Place } from './places'

export type QueueState =
  /** Nothing is wished for. */
  | 'idle'
  /** The wish is on its way. */
  | 'asking'
  /** In line. */
  | 'waiting'
  /** There is a reservation. */
  | 'seated'
  /** The turn came, and nothing was left; or the request was not possible. */
  | 'refused'
  /** The person left the line. */
  | 'left'
  /** No news for ten tries: the place is kept, and `resume` goes on. */
  | 'paused'

export interface QueueView {
  state: QueueState
  place?: Place
  number?: number
  ahead?: number
  waitingCount?: number
  estimatedWaitSeconds?: number
  /** Between 0 and 1: how much of the line is behind this person. */
  progress: number
  connection: Connection
  reservation?: Reservation
  receipt?: Receipt
  /** Why it was refused, or why it is not going on. */
  problem?: ProblemBody
  error?: unknown
}

export interface QueueOptions {
  api: Maitred
  places: Places
  pace?: Pace
  random?: () => number
  changed?: (view: QueueView) => void
  /** Who is signed in. */
  person?: () => string | undefined
}

const NOTHING: QueueView = { state: 'idle', progress: 0, connection: 'live' }

export class ReservationQueue {
  private view_: QueueView = NOTHING
  private readonly waker = new Waker()
  private running?: AbortController

  constructor(private readonly options: QueueOptions) {}

  get view(): QueueView {
    return this.view_
  }

  /** Presses the button. A second press while a wish is under way changes nothing. */
  async start(request: BookingRequest, headers?: Record<string, string>): Promise<void> {
    if (this.view_.state === 'asking' || this.view_.state === 'waiting') return
    const place: Place = { key: freshKey(), request, headers, since: Date.now(), person: this.options.person?.() }
    this.options.places.put(place)
    await this.run(place)
  }

  /** Goes on with a place that this browser holds. */
  async resume(place: Place): Promise<void> {
    await this.run(place)
  }

  /** Looks again at once: the network is back, or the page is seen again. */
  wake(): void {
    this.waker.wake()
  }

  /** Leaves the line. Where the turn has just come, the answer is the outcome, and nothing is undone. */
  async leave(): Promise<void> {
    const place = this.view_.place
    if (!place?.ticket) {
      this.forget()
      return
    }
    const ticket = await this.options.api.leave(place.ticket, place.token)
    this.running?.abort()
    this.hear(place, ticket)
  }

  /** Stops following, and keeps the place: the page is closed, the server decides all the same. */
  stop(): void {
    this.running?.abort()
  }

  /** Puts the answer away. */
  forget(): void {
    this.running?.abort()
    if (this.view_.place) this.options.places.forget(this.view_.place.key)
    this.view_ = NOTHING
    this.options.changed?.(this.view_)
  }

  private set(change: Partial<QueueView>): void {
    this.view_ = { ...this.view_, ...change }
    this.options.changed?.(this.view_)
  }

  private async run(place: Place): Promise<void> {
    this.running?.abort()
    const running = new AbortController()
    this.running = running
    this.view_ = NOTHING
    this.set({ state: place.ticket ? 'waiting' : 'asking', place })
    try {
      let again = 0
      for (;;) {
        if (!place.ticket && (await this.ask(place, running.signal)) === 'answered') return
        if (running.signal.aborted) return
        try {
          return await this.followTicket(place, running.signal)
        } catch (error) {
          // A server that died took its lines along. The same wish with the same key takes a new place, once.
          const gone = error instanceof Problem && error.code === 'not-found'
          if (!gone || !place.request || again++ >= 3) throw error
          place = { ...place, ticket: undefined, from: undefined }
          this.options.places.put(place)
          this.set({ place, state: 'asking' })
        }
      }
    } catch (error) {
      if (!running.signal.aborted) await this.fail(place, error)
    }
  }

  /** Sends the wish until somebody answers. */
  private async ask(place: Place, signal: AbortSignal): Promise<'answered' | 'in line'> {
    const pace = this.options.pace ?? PACE
    if (!place.request) throw new GaveUp('there is nothing to ask for')
    for (let tries = 1; ; tries++) {
      try {
        const answer = await this.options.api.book(place.request, place.key, place.headers, signal)
        if (!isTicket(answer)) {
          this.won(place, answer.value as Reservation)
          return 'answered'
        }
        this.enter(place, answer.value.id)
        if (this.hear(place, answer.value)) return 'answered'
        return 'in line'
      } catch (error) {
        if (signal.aborted) return 'answered'
        // A second press, or another tab: the first one has the place.
        const other = error instanceof Problem && (error.code === 'request-in-progress' || error.code === 'unavailable')
        const ticket = other ? error.body.ticket?.id : undefined
        if (ticket) {
          this.enter(place, ticket)
          return 'in line'
        }
        // Too many people is an answer of its own: it says when to come back.
        if (!mayPass(error) || (error instanceof Problem && error.status === 429)) throw error
        if (tries >= pace.tries) throw new GaveUp('no answer', { cause: error })
        this.set({ connection: 'away' })
      }
      const wait = pace.least + (this.options.random ?? Math.random)() * pace.spread
      await this.waker.sleep(wait, signal)
    }
  }

  private enter(place: Place, ticket: string): void {
    place.ticket = ticket
    this.options.places.put(place)
    this.set({ state: 'waiting', place, connection: 'live' })
  }

  private followTicket(place: Place, signal: AbortSignal): Promise<void> {
    const { api, pace, random } = this.options
    const id = place.ticket ?? ''
    const source = {
      look: (signal: AbortSignal) => api.ticket(id, signal, place.token),
      async *listen(signal: AbortSignal, alive: () => void) {
        for await (const { value } of api.ticketEvents(id, signal, alive, place.token)) yield value
      },
    }
    const connection = (connection: Connection) => this.set({ connection })
    return follow(source, (ticket) => this.hear(place, ticket), { signal, waker: this.waker, pace, random, connection })
  }

  /** Takes in what the server says of the ticket; true when it is over. */
  private hear(place: Place, ticket: Ticket): boolean {
    if (ticket.state === 'waiting') {
      if (place.from === undefined || ticket.ahead > place.from) {
        place.from = ticket.ahead
        this.options.places.put(place)
      }
      const progress = place.from === 0 ? 1 : 1 - ticket.ahead / (place.from + 1)
      const { number, ahead, waitingCount, estimatedWaitSeconds } = ticket
      this.set({ state: 'waiting', place, number, ahead, waitingCount, estimatedWaitSeconds, progress })
      return false
    }
    this.options.places.forget(place.key)
    const { number, receipt, outcome } = ticket
    this.set({ number, ahead: 0, receipt: receipt ?? undefined, progress: 1, connection: 'live' })
    if (ticket.state === 'seated' && outcome?.reservation) this.set({ state: 'seated', reservation: outcome.reservation })
    else if (ticket.state === 'left') this.set({ state: 'left' })
    else this.set({ state: 'refused', problem: outcome?.problem ?? undefined })
    return true
  }

  private won(place: Place, reservation: Reservation): void {
    this.options.places.forget(place.key)
    this.set({ state: 'seated', reservation, number: reservation.ticket.number, progress: 1, connection: 'live' })
  }

  private async fail(place: Place, error: unknown): Promise<void> {
    const refused = error instanceof Problem && !error.passes && error.code !== 'unauthenticated'
    const busy = error instanceof Problem && error.status === 429
    if (refused || busy) {
      this.options.places.forget(place.key)
      const ticket = error.body.ticket
      // Whoever was refused in the call has a receipt as well; the answer does not wait for it to be had.
      const told = ticket ? await this.options.api.ticket(ticket.id, undefined, place.token).catch(() => undefined) : undefined
      const receipt = told?.receipt ?? undefined
      this.set({ state: 'refused', problem: error.body, error, number: ticket?.number, receipt, progress: 1 })
    } else this.set({ state: 'paused', error, connection: 'away' })
  }
}
