/** What a venue's terms mean for a guest, as far as a page says it before the server does. */
import type { Venue } from '@maitred/client'

export interface Policy {
  depositPerPerson: number
  largeParty: number
  largePartyDepositPerPerson: number
  refundBeforeDay: number
  refundSameDay: number
  lateHours: number
  refundLate: number
  lateCrowd: number
  refundLateCrowd: number
  holdSeconds: number
  offerSeconds?: number
  refundsByStaff: boolean
}

export function policyOf(venue: Venue): Policy {
  return venue.policy as unknown as Policy
}

export function deposit(venue: Venue, party: number): number {
  const policy = policyOf(venue)
  return party * (party >= policy.largeParty ? policy.largePartyDepositPerPerson : policy.depositPerPerson)
}

/** The day it is at the venue. */
export function today(timeZone: string): string {
  return new Intl.DateTimeFormat('sv-SE', { timeZone, year: 'numeric', month: '2-digit', day: '2-digit' }).format(new Date())
}
