/**
 * The places in line that this browser holds. A wish is written down before it is sent: whatever happens to the tab, the
 * network or the server, the same wish with the same key is found here and leads to one answer.
 */
import type { BookingRequest } from './client'

export interface Place {
  /** Names the wish; the server answers the same key once. */
  key: string
  request?: BookingRequest
  /** What it is sent with, such as the token of a waiting room. */
  headers?: Record<string, string>
  /** Known once the server has taken it in. */
  ticket?: string
  /** A token good for this place only, where it came from another device. */
  token?: string
  /** Who wished it, so that nobody else on this device sees it. */
  person?: string
  /** How many were ahead at first: the bar moves from there. */
  from?: number
  since: number
}

/** What of `localStorage` is needed. */
export type Keep = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>

/** A wish older than this is over one way or the other. */
const FORGET = 24 * 3_600_000
const NAME = 'maitred.places'

export class Places {
  constructor(private readonly keep: Keep) {}

  all(): Place[] {
    let kept: unknown
    try {
      kept = JSON.parse(this.keep.getItem(NAME) ?? '[]')
    } catch {
      kept = []
    }
    const places = Array.isArray(kept) ? (kept as Place[]) : []
    return places.filter((place) => typeof place?.key === 'string' && Date.now() - place.since < FORGET)
  }

  find(test: (place: Place) => boolean): Place | undefined {
    return this.all().find(test)
  }

  put(place: Place): void {
    const others = this.all().filter((other) => other.key !== place.key)
    this.write([place, ...others].slice(0, 20))
  }

  forget(key: string): void {
    this.write(this.all().filter((place) => place.key !== key))
  }

  private write(places: Place[]): void {
    try {
      if (places.length === 0) this.keep.removeItem(NAME)
      else this.keep.setItem(NAME, JSON.stringify(places))
    } catch {
      // Storage is full or forbidden: the place lives as long as the page does.
    }
  }
}
