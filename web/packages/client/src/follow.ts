/**
 * Following something that changes on the server, until it is over: by listening where that works, by asking every
 * few seconds where it does not. Connections break, laptops sleep, servers restart; none of that loses a place in line, so
 * none of it is an error until ten tries in a row have brought no answer.
 */
import { GaveUp, Problem, Unreachable } from './problem'

export interface Source<T> {
  look(signal: AbortSignal): Promise<T>
  /** News as it comes. `alive` is to be called for every sign of life. */
  listen(signal: AbortSignal, alive: () => void): AsyncIterable<T>
}

export interface Pace {
  /** Milliseconds between two tries: this many… */
  least: number
  /** …and up to so many more, so that not everybody asks at once. */
  spread: number
  /** Tries in a row without an answer. */
  tries: number
  /** A stream that says nothing for so long is dead: the server sends a comment every 15 s. */
  silence: number
}

export const PACE: Pace = { least: 2_000, spread: 2_000, tries: 10, silence: 35_000 }

export type Connection = 'live' | 'polling' | 'away'

/** Waits that can be cut short: when the network is back, or somebody looks at the page again. */
export class Waker {
  private wakers = new Set<() => void>()
  wake(): void {
    for (const wake of [...this.wakers]) wake()
  }
  sleep(milliseconds: number, signal: AbortSignal): Promise<'slept' | 'woken'> {
    return new Promise((resolve) => {
      const end = (how: 'slept' | 'woken') => {
        clearTimeout(timer)
        this.wakers.delete(woken)
        signal.removeEventListener('abort', woken)
        resolve(how)
      }
      const woken = () => end('woken')
      const timer = setTimeout(() => end('slept'), milliseconds)
      this.wakers.add(woken)
      signal.addEventListener('abort', woken)
      if (signal.aborted) woken()
    })
  }
}

export interface Following {
  signal: AbortSignal
  waker: Waker
  pace?: Pace
  random?: () => number
  connection?: (how: Connection) => void
}

/** Calls `heard` with all news until it returns true. Throws what the server refuses, or `GaveUp`. */
export async function follow<T>(source: Source<T>, heard: (news: T) => boolean, options: Following): Promise<void> {
  const { signal, waker, random = Math.random, connection = () => {} } = options
  const pace = options.pace ?? PACE
  let withoutAnswer = 0
  let deafStreams = 0
  for (let turn = 0; !signal.aborted; turn++) {
    // Where streams never bring anything (a proxy that holds them back), asking is the way; now and then they get a chance.
    const listens = deafStreams < 2 || turn % 10 === 0
    try {
      if (listens) {
        const news = await listenOnce(source, heard, options, pace, () => {
          withoutAnswer = 0
          connection('live')
        })
        if (news === 'over') return
        deafStreams = news === 'some' ? 0 : deafStreams + 1
        if (signal.aborted) return
        connection('polling')
      }
      if (heard(await source.look(signal))) return
      withoutAnswer = 0
      if (!listens) connection('polling')
    } catch (error) {
      if (signal.aborted) return
      if (!mayPass(error)) throw error
      connection('away')
      if (++withoutAnswer >= pace.tries) throw new GaveUp('no answer', { cause: error })
    }
    if ((await waker.sleep(pace.least + random() * pace.spread, signal)) === 'woken') {
      withoutAnswer = 0
      deafStreams = 0
    }
  }
}

/** One stream, to its end. Its breaking is no error: whoever was listening asks instead. */
async function listenOnce<T>(
  source: Source<T>,
  heard: (news: T) => boolean,
  options: Following,
  pace: Pace,
  onNews: () => void,
): Promise<'over' | 'some' | 'none'> {
  const ending = new AbortController()
  const end = () => ending.abort()
  options.signal.addEventListener('abort', end)
  if (options.signal.aborted) end()
  let watchdog: ReturnType<typeof setTimeout> | undefined
  const alive = () => {
    clearTimeout(watchdog)
    watchdog = setTimeout(end, pace.silence)
  }
  alive()
  let some = false
  try {
    for await (const news of source.listen(ending.signal, alive)) {
      some = true
      onNews()
      if (heard(news)) return 'over'
    }
  } catch (error) {
    if (!ending.signal.aborted && !mayPass(error)) throw error
  } finally {
    clearTimeout(watchdog)
    options.signal.removeEventListener('abort', end)
    end()
  }
  return some ? 'some' : 'none'
}

/** Whether this is about the moment rather than about what was asked. */
export function mayPass(error: unknown): boolean {
  return error instanceof Unreachable || (error instanceof Problem && error.passes)
}
