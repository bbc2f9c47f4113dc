/** What a server says when it does not do what was asked: RFC 9457, told apart by `code`, never by its prose. */
import type { components } from './api'

export type ProblemBody = components['schemas']['Problem']
export type Code = ProblemBody['code']

export class Problem extends Error {
  override readonly name = 'Problem'
  constructor(
    readonly body: ProblemBody,
    /** When to come back, in seconds. */
    readonly retryAfter?: number,
  ) {
    super(body.detail)
  }
  get code(): Code {
    return this.body.code
  }
  get status(): number {
    return this.body.status
  }
  /** What the server says about one field, by its JSON pointer. */
  field(pointer: string): string | undefined {
    return this.body.errors?.find((error) => error.pointer === pointer)?.message
  }
  /** Whether asking again later, unchanged, is the thing to do. */
  get passes(): boolean {
    return this.status === 429 || this.status >= 500
  }
}

/** No answer came: the network is away, or the server is. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable'
}

/** Ten tries in a row brought no news. */
export class GaveUp extends Error {
  override readonly name = 'GaveUp'
}
