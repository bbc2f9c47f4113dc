/** Loading something for a page: what came, whether it is on its way, and what went wrong. */
import { onScopeDispose, ref, shallowRef, watch, type Ref, type WatchSource } from 'vue'

export interface Loaded<T> {
  value: Ref<T | undefined>
  loading: Ref<boolean>
  error: Ref<unknown>
  reload: () => Promise<void>
}

export function useLoad<T>(ask: () => Promise<T>, on: WatchSource<unknown> | WatchSource<unknown>[] = []): Loaded<T> {
  const value = shallowRef<T>()
  const loading = ref(true)
  const error = shallowRef<unknown>()
  let latest = 0
  async function reload() {
    const mine = ++latest
    loading.value = true
    try {
      const came = await ask()
      // An answer that was overtaken by a later question is old news.
      if (mine === latest) [value.value, error.value] = [came, undefined]
    } catch (problem) {
      if (mine === latest) error.value = problem
    } finally {
      if (mine === latest) loading.value = false
    }
  }
  watch(on, reload)
  void reload()
  return { value, loading, error, reload }
}

/** Calls again and again while the page is seen. */
export function useEvery(milliseconds: number, action: () => unknown): void {
  const timer = setInterval(() => document.visibilityState === 'visible' && action(), milliseconds)
  const seen = () => document.visibilityState === 'visible' && action()
  document.addEventListener('visibilitychange', seen)
  onScopeDispose(() => {
    clearInterval(timer)
    document.removeEventListener('visibilitychange', seen)
  })
}
