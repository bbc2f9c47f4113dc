/** Who is signed in on this device, and the API as they see it. */
import { Maitred, Places, Problem, type components } from '@maitred/client'
import { computed, ref, watch } from 'vue'
import { language } from './language'

interface Kept {
  accessToken: string
  expiresAt: string
}

const KEPT = 'maitred.session'
const token = ref<Kept | undefined>(read())

function read(): Kept | undefined {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? 'null') as Kept | null
    return kept && Date.parse(kept.expiresAt) > Date.now() ? kept : undefined
  } catch {
    return undefined
  }
}

function write(kept: Kept | undefined): void {
  token.value = kept
  if (kept) localStorage.setItem(KEPT, JSON.stringify(kept))
  else localStorage.removeItem(KEPT)
}

// Signing in or out in another tab is signing in or out.
window.addEventListener('storage', (event) => {
  if (event.key === KEPT) token.value = read()
})

/** How far the server's clock is ahead of this device's, in milliseconds. */
let ahead = 0

/** What time it is where holds run out. */
export function serverNow(): number {
  return Date.now() + ahead
}

/** Asks on behalf of whoever is signed in. A refused token is forgotten. */
const ask: typeof fetch = async (input, init) => {
  const response = await fetch(input, init)
  const told = Date.parse(response.headers.get('date') ?? '')
  // The header has whole seconds: less than that is not known to be a difference.
  if (!Number.isNaN(told)) ahead = Math.abs(told - Date.now()) > 2_000 ? told - Date.now() : 0
  const sent = new Headers(init?.headers).get('authorization')
  if (response.status === 401 && sent && sent === `Bearer ${token.value?.accessToken}`) write(undefined)
  return response
}

export const api = new Maitred({ token: () => token.value?.accessToken, language: () => language.value, fetch: ask })
export const places = new Places(localStorage)

/** What the token itself says; the server is the one who checks it. */
export const person = computed(() => {
  try {
    const payload = token.value?.accessToken.split('.')[1]?.replaceAll('-', '+').replaceAll('_', '/')
    if (!payload) return undefined
    const bytes = Uint8Array.from(atob(payload), (char) => char.charCodeAt(0))
    const claims = JSON.parse(new TextDecoder().decode(bytes)) as { sub: string | number; name: string }
    return { id: String(claims.sub), name: claims.name }
  } catch {
    return undefined
  }
})

/** The venues that this person runs. */
export const runs = ref<string[]>([])

export async function learnVenues(): Promise<void> {
  if (!token.value) return void (runs.value = [])
  try {
    runs.value = (await api.get<components['schemas']['Myself']>('/api/accounts/me')).runs
  } catch (error) {
    if (error instanceof Problem && error.code === 'unauthenticated') runs.value = []
  }
}
watch(token, learnVenues, { immediate: true })

export async function signIn(email: string, password: string): Promise<void> {
  write(await api.signIn({ email, password }))
}

export async function signUp(email: string, password: string, name: string): Promise<void> {
  await api.signUp({ email, password, name })
  await signIn(email, password)
}

export function signOut(): void {
  write(undefined)
}
