/** The API, typed by its own OpenAPI document. Nothing here knows a browser beyond `fetch`. */
import type { components } from './api'
import { readEvents } from './events'
import { Problem, Unreachable, type ProblemBody } from './problem'

type Schemas = components['schemas']
export type Venue = Schemas['Venue'] & { opening?: Schemas['Opening'] | null }
export type Opening = Schemas['Opening']
export type QueueToken = Schemas['QueueToken']
export type MenuItem = Schemas['MenuItem']
export type Slot = Schemas['SlotAvailability']
export type Reservation = Schemas['Reservation']
export type Ticket = Schemas['Ticket']
export type Receipt = Schemas['Receipt']
export type BookingRequest = Schemas['BookingRequest']
export type Wallet = Schemas['Wallet']
export type WalletEntry = Schemas['WalletEntry']
export type Session = Schemas['Session']

export interface List<T> {
  items: T[]
  next?: string | null
}

export interface Options {
  /** Where the API is; the page's own host by default. */
  base?: string
  /** The access token, asked for at every call, or nothing for somebody who has not signed in. */
  token?: () => string | undefined
  /** `ko` or `en`. */
  language?: () => string
  fetch?: typeof fetch
}

export interface Call {
  method?: string
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal
  /** Another token than the usual one. */
  token?: string
}

export interface Answer<T> {
  status: number
  value: T
}

export class Maitred {
  constructor(private readonly options: Options = {}) {}

  /** Any call. Throws `Problem` where the server says no, `Unreachable` where nobody says anything. */
  async call<T>(path: string, call: Call = {}): Promise<Answer<T>> {
    const response = await this.send(path, 'application/json', call)
    const text = await response.text().catch((error: unknown) => {
      throw new Unreachable('the answer broke off', { cause: error })
    })
    return { status: response.status, value: (text === '' ? undefined : JSON.parse(text)) as T }
  }

  async get<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await this.call<T>(path, { signal })).value
  }

  async write<T>(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<T> {
    return (await this.call<T>(path, { method, body, headers })).value
  }

  /** Events of a stream, each with its JSON read. */
  async *events<T>(path: string, call: Call & { alive?: () => void } = {}): AsyncGenerator<{ event: string; value: T }> {
    const response = await this.send(path, 'text/event-stream', call)
    if (!response.body) throw new Unreachable('there is no stream')
    try {
      for await (const { event, data } of readEvents(response.body, call.alive)) {
        yield { event, value: JSON.parse(data) as T }
      }
    } catch (error) {
      throw error instanceof Problem ? error : new Unreachable('the stream broke', { cause: error })
    }
  }

  private async send(path: string, accept: string, call: Call): Promise<Response> {
    const token = call.token ?? this.options.token?.()
    const headers: Record<string, string> = { accept, ...call.headers }
    if (token) headers.authorization = `Bearer ${token}`
    if (this.options.language) headers['accept-language'] = this.options.language()
    if (call.body !== undefined) headers['content-type'] = 'application/json'
    const init: RequestInit = { method: call.method ?? 'GET', headers, cache: 'no-store', credentials: 'omit' }
    if (call.body !== undefined) init.body = JSON.stringify(call.body)
    if (call.signal) init.signal = call.signal
    let response: Response
    try {
      response = await (this.options.fetch ?? fetch)((this.options.base ?? '') + path, init)
    } catch (error) {
      throw new Unreachable('the server does not answer', { cause: error })
    }
    if (response.ok) return response
    throw await problemOf(response)
  }

  signUp(account: Schemas['SignUp']) {
    return this.write<Schemas['Account']>('POST', '/api/accounts', account)
  }
  signIn(account: Schemas['SignIn']) {
    return this.write<Session>('POST', '/api/sessions', account)
  }
  venues() {
    return this.get<List<Venue>>('/api/venues')
  }
  venue(id: string) {
    return this.get<Venue>(`/api/venues/${id}`)
  }
  menu(id: string) {
    return this.get<List<MenuItem>>(`/api/venues/${id}/menu`)
  }
  dates(id: string) {
    return this.get<List<string>>(`/api/venues/${id}/dates`)
  }
  availability(id: string, date: string) {
    return this.get<List<Slot>>(`/api/venues/${id}/availability?date=${date}`)
  }
  book(request: BookingRequest, key: string, extra: Record<string, string> = {}, signal?: AbortSignal) {
    const headers = { 'idempotency-key': key, ...extra }
    return this.call<Reservation | Ticket>('/api/reservations', { method: 'POST', body: request, headers, signal })
  }
  ticket(id: string, signal?: AbortSignal, token?: string) {
    return this.call<Ticket>(`/api/tickets/${id}`, { signal, token }).then((answer) => answer.value)
  }
  ticketEvents(id: string, signal: AbortSignal, alive: () => void, token?: string) {
    return this.events<Ticket>(`/api/tickets/${id}/events`, { signal, alive, token })
  }
  leave(id: string, token?: string) {
    return this.call<Ticket>(`/api/tickets/${id}`, { method: 'DELETE', token }).then((answer) => answer.value)
  }
  reservations(cursor?: string) {
    return this.get<List<Reservation>>(`/api/reservations${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ''}`)
  }
  reservation(id: string, token?: string) {
    return this.call<Reservation>(`/api/reservations/${id}`, { token }).then((answer) => answer.value)
  }
  cancel(id: string) {
    return this.call<Reservation | Ticket>(`/api/reservations/${id}/cancel`, { method: 'POST' })
  }
  change(id: string, change: Schemas['ChangeRequest']) {
    return this.call<Reservation | Ticket>(`/api/reservations/${id}`, { method: 'PATCH', body: change })
  }
  wallet() {
    return this.get<Wallet>('/api/wallet')
  }
  walletEntries(cursor?: string) {
    return this.get<List<WalletEntry>>(`/api/wallet/entries${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ''}`)
  }
  charge(amount: number, key: string) {
    return this.write<WalletEntry>('POST', '/api/wallet/charges', { amount }, { 'idempotency-key': key })
  }
}

async function problemOf(response: Response): Promise<Problem> {
  const after = Number(response.headers.get('retry-after'))
  const retryAfter = Number.isFinite(after) && after > 0 ? after : undefined
  const body = (await response.json().catch(() => undefined)) as ProblemBody | undefined
  if (body && typeof body.code === 'string') return new Problem(body, retryAfter)
  // Something between us and the server answered for it.
  const code = response.status === 401 ? 'unauthenticated' : response.status >= 500 ? 'unavailable' : 'internal'
  const title = response.statusText || `HTTP ${response.status}`
  return new Problem({ type: 'about:blank', title, status: response.status, detail: title, code } as ProblemBody, retryAfter)
}

/** Whether an answer is a place in line rather than the thing that was asked for. */
export function isTicket(answer: Answer<unknown>): answer is Answer<Ticket> {
  return answer.status === 202
}

/** A key that names one wish, however often it is sent. */
export function freshKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
