/** What tests have: a server, people who are signed in, and venues of their own. */
import { test as base, expect, type BrowserContext, type Page } from '@playwright/test'
import { Server, type Speed } from './server'

export { expect } from '@playwright/test'

export interface Person {
  token: string
  context: BrowserContext
  page: Page
}

interface World {
  server: Server
  /** Somebody with a browser of their own, signed in, with this many points. */
  person: (points?: number) => Promise<Person>
  /** Opens a venue; whoever runs it is returned with it. */
  venue: (settings: Record<string, unknown>, menu?: { name: string; price: number }[]) => Promise<{ id: string; staff: string }>
  /** Tomorrow at the venue, where nothing has passed yet. */
  tomorrow: string
}

interface Shared {
  speed: Speed | undefined
  running: Server
}

export const test = base.extend<World, Shared>({
  speed: [undefined, { option: true, scope: 'worker' }],
  running: [
    async ({ speed }, use) => {
      const server = await Server.start(speed)
      await use(server)
      await server.stop()
    },
    { scope: 'worker', timeout: 60_000 },
  ],
  server: async ({ running }, use) => use(running),
  // eslint-disable-next-line no-empty-pattern
  tomorrow: async ({}, use) => {
    const day = new Date(Date.now() + 86_400_000)
    await use(new Intl.DateTimeFormat('sv-SE', { timeZone: 'Asia/Seoul' }).format(day))
  },
  person: async ({ server, browser, contextOptions }, use) => {
    const contexts: BrowserContext[] = []
    await use(async (points = 0) => {
      const token = server.tokens(1)[0]!
      if (points > 0) await server.api(token, 'POST', '/api/wallet/charges', { amount: points })
      const context = await browser.newContext({ ...contextOptions, baseURL: server.url })
      contexts.push(context)
      await signedIn(context, token)
      const page = await context.newPage()
      watch(page, server)
      return { token, context, page }
    })
    for (const context of contexts) await context.close()
  },
  venue: async ({ server }, use) => {
    await use(async (settings, menu) => {
      const staff = server.tokens(1)[0]!
      const made = await server.api<{ id: string }>(staff, 'POST', '/api/venues', { name: 'Test Kitchen', ...settings })
      if (menu) await server.api(staff, 'PUT', `/api/venues/${made.id}/menu`, { items: menu })
      return { id: made.id, staff }
    })
  },
})

/** As if this browser had signed in before. */
export async function signedIn(context: BrowserContext, token: string): Promise<void> {
  const kept = JSON.stringify({ accessToken: token, expiresAt: new Date(Date.now() + 86_400_000).toISOString() })
  await context.addInitScript((kept) => {
    // Once: who signs out in a test stays out.
    if (!sessionStorage.getItem('test.seen')) localStorage.setItem('maitred.session', kept)
    sessionStorage.setItem('test.seen', '1')
  }, kept)
}

/** Whatever a page does, it asks no other host, keeps tokens out of addresses, and breaks no rule of the content policy. */
export function watch(page: Page, server: Server): void {
  page.on('request', (request) => {
    expect(new URL(request.url()).origin, request.url()).toBe(server.url)
    expect(request.url()).not.toMatch(/eyJ/)
  })
  page.on('console', (message) => expect(message.text()).not.toMatch(/Content Security Policy|Refused to/))
  page.on('pageerror', (error) => {
    throw error
  })
}

/** Books for a crowd without looking at the answers. */
export async function crowd(server: Server, tokens: string[], wish: Record<string, unknown>): Promise<number[]> {
  const asked = tokens.map((token) => server.ask(token, 'POST', '/api/reservations', wish, { prefer: 'wait=0' }).then((r) => r.status))
  return Promise.all(asked)
}
