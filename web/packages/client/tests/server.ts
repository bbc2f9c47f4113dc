/** A server with a clock of its own: one line, in which somebody is decided every so often. */
import { vi } from 'vitest'
import type { BookingRequest, Ticket } from '../src'

interface Waiting {
  id: string
  key: string
  number: number
  state: Ticket['state']
  listeners: Set<ReadableStreamDefaultController<Uint8Array>>
}

export class FakeServer {
  /** How long one person takes, in milliseconds of the fake clock. */
  pace = 1_000
  /** Who is ahead of everybody that comes. */
  crowd: number
  places = 1
  up = true
  streams = true
  calls: string[] = []
  private tickets = new Map<string, Waiting>()
  private keys = new Map<string, string>()
  private decided = 0
  private next = 1
  private epoch = 1
  private timer: ReturnType<typeof setInterval>

  constructor(crowd: number) {
    this.crowd = crowd
    this.next = crowd + 1
    this.timer = setInterval(() => this.decideOne(), this.pace)
  }

  stop(): void {
    clearInterval(this.timer)
  }

  /** Dies and comes back: whoever was in line is forgotten. */
  restart(): void {
    for (const ticket of this.tickets.values()) this.hangUp(ticket)
    this.tickets.clear()
    this.keys.clear()
    this.epoch++
    this.decided = 0
    this.next = 1
  }

  hangUpAll(): void {
    for (const ticket of this.tickets.values()) this.hangUp(ticket)
  }

  private hangUp(ticket: Waiting): void {
    for (const listener of ticket.listeners) listener.error(new Error('connection reset'))
    ticket.listeners.clear()
  }

  private decideOne(): void {
    if (!this.up) return
    this.decided++
    for (const ticket of this.tickets.values()) {
      if (ticket.state === 'waiting' && ticket.number <= this.decided) {
        ticket.state = this.places > 0 ? 'seated' : 'refused'
        this.places--
      }
      for (const listener of [...ticket.listeners]) {
        listener.enqueue(this.written(ticket))
        if (ticket.state !== 'waiting') {
          listener.close()
          ticket.listeners.clear()
        }
      }
    }
  }

  private written(ticket: Waiting): Uint8Array {
    const event = ticket.state === 'waiting' ? 'position' : 'outcome'
    return new TextEncoder().encode(`event: ${event}\ndata: ${JSON.stringify(this.view(ticket))}\n\n`)
  }

  private view(ticket: Waiting): Ticket {
    const ahead = Math.max(0, ticket.number - this.decided - 1)
    const place = { id: ticket.id, epoch: this.epoch, number: ticket.number }
    const waiting = ticket.state === 'waiting'
    const view = { ...place, state: ticket.state, ahead, waitingCount: ahead + 1, estimatedWaitSeconds: waiting ? ahead + 1 : 0 }
    if (ticket.state === 'seated') {
      return { ...view, outcome: { status: 201, reservation: { id: 'r1', status: 'TEMPORARY', ticket: place } } } as Ticket
    }
    if (ticket.state === 'refused') {
      const problem = { type: '', title: '', status: 409, detail: 'Full.', code: 'not-enough-places', remaining: 0 }
      const receipt = { epoch: this.epoch, number: ticket.number, left: 0, code: 'not-enough-places' }
      return { ...view, outcome: { status: 409, problem }, receipt } as Ticket
    }
    return view as Ticket
  }

  readonly fetch: typeof fetch = vi.fn(async (input, init = {}) => {
    const [method, path] = [init.method ?? 'GET', String(input)]
    this.calls.push(`${method} ${path}`)
    if (!this.up) throw new TypeError('Failed to fetch')
    if (path === '/api/reservations') return this.book(init)
    const [, id, events] = /^\/api\/tickets\/([^/]+)(\/events)?$/.exec(path) ?? []
    const ticket = this.tickets.get(id ?? '')
    if (!ticket) return problem(404, 'not-found')
    if (method === 'DELETE' && ticket.state === 'waiting') ticket.state = 'left'
    if (events) return this.streams ? this.listen(ticket, init.signal) : problem(503, 'unavailable')
    return Response.json(this.view(ticket))
  })

  private book(init: RequestInit): Response {
    const key = (init.headers as Record<string, string>)['idempotency-key'] ?? ''
    const wish = JSON.parse(String(init.body)) as BookingRequest
    if ((wish.partySize ?? 0) > 100) return problem(422, 'invalid-request')
    let id = this.keys.get(key)
    if (!id) {
      id = `t${this.epoch}-${this.next}`
      this.keys.set(key, id)
      this.tickets.set(id, { id, key, number: this.next++, state: 'waiting', listeners: new Set() })
    }
    return Response.json(this.view(this.tickets.get(id)!), { status: 202 })
  }

  private listen(ticket: Waiting, signal?: AbortSignal | null): Response {
    const stream = new ReadableStream<Uint8Array>({
      start: (listener) => {
        listener.enqueue(this.written(ticket))
        if (ticket.state !== 'waiting') return listener.close()
        ticket.listeners.add(listener)
        signal?.addEventListener('abort', () => {
          if (ticket.listeners.delete(listener)) listener.error(new DOMException('aborted', 'AbortError'))
        })
      },
    })
    return new Response(stream, { headers: { 'content-type': 'text/event-stream' } })
  }

  count(call: string): number {
    return this.calls.filter((made) => made.startsWith(call)).length
  }
}

function problem(status: number, code: string): Response {
  return Response.json({ type: '', title: code, status, detail: code, code }, { status })
}
