/** Something live on a page: by listening, by asking where that does not work, as long as the page is there. */
import { follow, GaveUp, Waker, type Connection } from '@maitred/client'
import { onScopeDispose, ref, shallowRef } from 'vue'
import { api } from './session'

export function useFollow<T>(path: string, isOver: (news: T) => boolean = () => false) {
  const value = shallowRef<T>()
  const connection = ref<Connection>('live')
  const error = shallowRef<unknown>()
  const waker = new Waker()
  let running: AbortController | undefined

  async function start() {
    running?.abort()
    const mine = new AbortController()
    running = mine
    error.value = undefined
    const source = {
      look: (signal: AbortSignal) => api.get<T>(path, signal),
      async *listen(signal: AbortSignal, alive: () => void) {
        for await (const { value } of api.events<T>(`${path}/events`, { signal, alive })) yield value
      },
    }
    const heard = (news: T) => {
      value.value = news
      return isOver(news)
    }
    try {
      await follow(source, heard, { signal: mine.signal, waker, connection: (how) => (connection.value = how) })
    } catch (problem) {
      if (mine.signal.aborted) return
      error.value = problem
      if (problem instanceof GaveUp) connection.value = 'away'
    }
  }

  const wake = () => document.visibilityState === 'visible' && waker.wake()
  document.addEventListener('visibilitychange', wake)
  window.addEventListener('online', wake)
  onScopeDispose(() => {
    running?.abort()
    document.removeEventListener('visibilitychange', wake)
    window.removeEventListener('online', wake)
  })
  return { value, connection, error, start, stop: () => running?.abort() }
}
