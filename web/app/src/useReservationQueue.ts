/**
 * A place in line for Vue: reactive, and the same one for the whole app, because a person stands in line, not a page.
 */
import { ReservationQueue, type Place, type QueueView } from '@maitred/client'
import { computed, shallowRef, watch } from 'vue'
import { api, person, places } from './session'

const view = shallowRef<QueueView>({ state: 'idle', progress: 0, connection: 'live' })
const queue = new ReservationQueue({
  api,
  places,
  person: () => person.value?.id,
  changed: (next) => (view.value = next),
})

for (const event of ['online', 'pageshow', 'focus']) window.addEventListener(event, () => queue.wake())
document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && queue.wake())

const isMine = (place: Place) => place.token !== undefined || place.person === person.value?.id

/** Goes on with the place that this browser holds, if nothing else is under way. */
function resume(which: (place: Place) => boolean = isMine): boolean {
  if (['asking', 'waiting'].includes(view.value.state)) return true
  const place = places.find(which)
  if (place) void queue.resume(place)
  return place !== undefined
}

// Whoever signs in on this device finds their place again; whoever signs out leaves nothing on the screen.
watch(
  () => person.value?.id,
  (now, before) => {
    if (before && now !== before && !view.value.place?.token) {
      queue.stop()
      view.value = { state: 'idle', progress: 0, connection: 'live' }
    }
    resume()
  },
)

export function useReservationQueue() {
  return {
    view,
    state: computed(() => view.value.state),
    position: computed(() => view.value.number),
    ahead: computed(() => view.value.ahead),
    expectedSeconds: computed(() => view.value.estimatedWaitSeconds),
    outcome: computed(() => view.value.reservation),
    error: computed(() => view.value.problem ?? view.value.error),
    start: queue.start.bind(queue),
    resume,
    follow: (place: Place) => queue.resume(place),
    leave: queue.leave.bind(queue),
    forget: queue.forget.bind(queue),
  }
}
