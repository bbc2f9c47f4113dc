import { expect, test } from './world'

const KB = 1_024

test('the first load is small and fast, and what is loaded is ours', async ({ browser, server }) => {
  const context = await browser.newContext({ baseURL: server.url })
  const page = await context.newPage()
  const session = await context.newCDPSession(page)
  await session.send('Network.enable')
  const scripts = new Map<string, number>()
  const kinds = new Map<string, string>()
  session.on('Network.responseReceived', ({ requestId, type }) => kinds.set(requestId, type))
  session.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    if (kinds.get(requestId) === 'Script') scripts.set(requestId, encodedDataLength)
  })
  const response = await page.goto('/')
  await expect(page.getByRole('heading', { name: 'Where to?' })).toBeVisible()
  const painted = await page.evaluate(
    () =>
      new Promise<number>((resolve) => {
        new PerformanceObserver((list) => resolve(Math.max(...list.getEntries().map((entry) => entry.startTime)))).observe({ type: 'largest-contentful-paint', buffered: true })
      }),
  )
  const loaded = [...scripts.values()].reduce((sum, bytes) => sum + bytes, 0)
  test.info().annotations.push({ type: 'measured', description: `${Math.round(loaded / KB)} KB of scripts, painted after ${Math.round(painted)} ms` })
  console.log(`first load: ${Math.round(loaded / KB)} KB of compressed scripts, largest contentful paint after ${Math.round(painted)} ms`)
  expect(loaded).toBeGreaterThan(10 * KB)
  expect(loaded).toBeLessThanOrEqual(200 * KB)
  expect(painted).toBeLessThan(1_500)

  const policy = response?.headers()['content-security-policy'] ?? ''
  expect(policy).toContain("default-src 'self'")
  expect(policy).toContain("frame-ancestors 'none'")
  expect(policy).not.toContain('unsafe')
  expect(response?.headers()['cache-control']).toBe('no-cache')
  expect(response?.headers()['content-encoding']).toBe('br')
  await context.close()
})

test('assets are kept for good, everything else is asked for again', async ({ server }) => {
  const front = await fetch(`${server.url}/`)
  const asset = /\/assets\/[^"]+\.js/.exec(await front.text())?.[0]
  const script = await fetch(server.url + asset, { headers: { 'accept-encoding': 'gzip' } })
  expect(script.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
  expect(script.headers.get('content-encoding')).toBe('gzip')
  expect(script.headers.get('x-content-type-options')).toBe('nosniff')
  const again = await fetch(`${server.url}/`, { headers: { 'if-none-match': front.headers.get('etag') ?? '' } })
  expect(again.status).toBe(304)
  // An address of the app leads to the app; a file that is not there, and the API, do not.
  expect((await fetch(`${server.url}/venues/1`, { headers: { accept: 'text/html' } })).headers.get('content-type')).toContain('text/html')
  expect((await fetch(`${server.url}/assets/gone.js`, { headers: { accept: 'text/html' } })).status).toBe(404)
  expect((await fetch(`${server.url}/api/gone`, { headers: { accept: 'text/html' } })).headers.get('content-type')).toBe('application/problem+json')
})
