/** What cancelling or changing a reservation would cost or bring back at this moment: the server's word. */
import type { components } from '@maitred/client'
import { api } from './session'

export type Terms = components['schemas']['Terms']

export function terms(id: string, partySize?: number): Promise<Terms> {
  return api.get<Terms>(`/api/reservations/${id}/terms${partySize === undefined ? '' : `?partySize=${partySize}`}`)
}
