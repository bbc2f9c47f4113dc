/** When a venue's sale opens, and what of its waiting room a page has to know. */
import type { Opening, Venue } from '@maitred/client'
import { serverNow } from './session'

export function openingOf(venue: Venue): Opening | undefined {
  return venue.opening ?? undefined
}

export function isClosed(venue: Venue): boolean {
  const opening = openingOf(venue)
  return opening !== undefined && Date.parse(opening.opensAt) > serverNow()
}

export function hasWaitingRoom(venue: Venue): boolean {
  return openingOf(venue)?.waitingRoom.enabled === true
}

/** The token of the waiting room, kept while the tab lives. */
export const roomToken = {
  get: (venue: string) => sessionStorage.getItem(`maitred.room.${venue}`) ?? undefined,
  set: (venue: string, token: string | null | undefined) =>
    token ? sessionStorage.setItem(`maitred.room.${venue}`, token) : sessionStorage.removeItem(`maitred.room.${venue}`),
  headers: (venue: string): Record<string, string> => {
    const token = roomToken.get(venue)
    return token ? { 'queue-token': token } : {}
  },
}
