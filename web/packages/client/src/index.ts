/**
 * @maitred/client: stand in line from any web page.
 *
 *     const queue = new ReservationQueue({ api: new Maitred({ token }), places: new Places(localStorage), changed: render })
 *     await queue.start({ venueId: '1', date: '2026-12-24', time: '19:00', partySize: 2, payment: 'deposit' })
 */
export * from './client'
export * from './follow'
export * from './places'
export * from './problem'
export * from './queue'
export * from './words'
export type { components, paths } from './api'
