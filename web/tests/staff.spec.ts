import { dialog } from './steps'
import { crowd, expect, signedIn, test } from './world'

// Slow enough that a rush lasts for a few seconds.
test.use({ speed: { disk: 150, batch: 5 }, viewport: { width: 1280, height: 860 } })

test('the day: those who came, those who did not, cancelling and handing out refunds', async ({ page: _, browser, server, venue, tomorrow }) => {
  const { id, staff } = await venue({ name: 'Evening Room', capacity: 20, policy: { refundsByStaff: true } })
  const guests = server.tokens(4)
  for (const [n, token] of guests.entries()) {
    await server.api(token, 'POST', '/api/wallet/charges', { amount: 50_000 })
    const time = n < 2 ? '12:00' : '13:00'
    const made = await server.api<{ id: string }>(token, 'POST', '/api/reservations', { venueId: id, date: tomorrow, time, partySize: 2, payment: 'deposit', note: n === 0 ? 'by the window' : undefined })
    await server.api(token, 'POST', `/api/reservations/${made.id}/payment`, { method: 'points' })
    if (n === 3) await server.api(token, 'POST', `/api/reservations/${made.id}/cancel`)
  }
  const context = await browser.newContext({ baseURL: server.url, viewport: { width: 1280, height: 860 } })
  await signedIn(context, staff)
  const page = await context.newPage()
  await page.goto('/staff')
  await page.getByRole('link', { name: /Evening Room/ }).click()
  await page.getByLabel('Day', { exact: true }).fill(tomorrow)
  const noon = page.getByRole('region', { name: '12:00' })
  const one = page.getByRole('region', { name: '13:00' })
  await expect(noon).toContainText('by the window')
  await noon.getByRole('button', { name: 'They came' }).first().click()
  await expect(noon.getByText('Visited')).toBeVisible()
  await noon.getByRole('button', { name: 'No-show' }).click()
  await expect(noon.locator('.chip', { hasText: 'No-show' })).toBeVisible()

  await one.getByRole('button', { name: 'Hand out refund · ₩10,000' }).click()
  await expect(one.getByText('Refunded')).toBeVisible()
  await one.getByRole('button', { name: 'Cancel' }).click()
  await expect(dialog(page)).toContainText('gets everything back: ₩10,000')
  await dialog(page).getByRole('button', { name: 'Cancel and refund' }).click()
  await one.getByRole('button', { name: 'Hand out refund · ₩10,000' }).click()
  await expect(one.getByText('Refunded')).toHaveCount(2)
  expect(await server.api(guests[2], 'GET', '/api/wallet')).toEqual({ balance: 50_000 })
  await context.close()
})

test('the live board follows a rush, for one venue and for all', async ({ browser, server, venue, tomorrow }) => {
  const { id, staff } = await venue({ name: 'Rush Room', capacity: 30 })
  const context = await browser.newContext({ baseURL: server.url, viewport: { width: 1280, height: 860 } })
  await signedIn(context, staff)
  const [board, all] = [await context.newPage(), await context.newPage()]
  await board.goto(`/staff/${id}/board`)
  await all.goto('/staff')
  await expect(board.getByTestId('board-waiting')).toHaveText('0')
  await crowd(server, server.tokens(200), { venueId: id, date: tomorrow, time: '12:00', partySize: 1, payment: 'deposit' })
  for (const page of [board, all]) await expect(page.getByTestId('board-waiting')).not.toHaveText('0')
  await expect(board.getByTestId('board-pace')).not.toHaveText('0')
  const line = board.getByRole('img', { name: /People in line/ }).locator('path.line')
  const before = await line.getAttribute('d')
  await expect(line).not.toHaveAttribute('d', before ?? '')
  await expect(board.getByTestId('board-held')).toHaveText('30', { timeout: 20_000 })
  await expect(board.getByTestId('board-waiting')).toHaveText('0', { timeout: 20_000 })
  await expect(board.getByTestId('board-latency')).toContainText(/half \d/)
  await expect(all.getByTestId('board-held')).toHaveText('30')
  await expect(board.getByRole('img', { name: 'Sold 0, Held 30, 30' })).toBeVisible()
  await context.close()
})

test('settings: a venue is opened and everything about it set', async ({ browser, server, tomorrow }) => {
  const staff = server.tokens(1)[0]!
  const context = await browser.newContext({ baseURL: server.url, viewport: { width: 1280, height: 860 } })
  await signedIn(context, staff)
  const page = await context.newPage()
  await page.goto('/staff')
  await page.getByLabel('Name of the venue').fill('New Place')
  await page.getByRole('button', { name: 'Open a venue' }).click()
  await expect(page).toHaveURL(/settings$/)
  const id = /staff\/(\d+)/.exec(page.url())?.[1]

  await page.getByLabel('What it offers').selectOption('tables')
  const inventory = page.locator('form', { has: page.getByLabel('What it offers') })
  await inventory.getByRole('button', { name: 'Add' }).click()
  await inventory.getByRole('button', { name: 'Add' }).click()
  await inventory.getByLabel('Seats', { exact: true }).nth(1).fill('2')
  await inventory.getByRole('button', { name: 'Save' }).click()
  await expect(inventory.getByText('Saved')).toBeVisible()

  const menu = page.locator('form', { has: page.getByRole('heading', { name: 'Menu' }) })
  await menu.getByRole('button', { name: 'Add' }).click()
  await menu.getByLabel('Dish').fill('Soup of the day')
  await menu.getByRole('button', { name: 'Save' }).click()
  await expect(menu.getByText('Saved')).toBeVisible()

  const terms = page.locator('form', { has: page.getByRole('heading', { name: 'Terms' }) })
  await terms.getByLabel('Refund on the day (%)').fill('101')
  await terms.getByRole('button', { name: 'Save' }).click()
  await expect(terms.getByRole('alert')).toContainText('between 0 and 100')
  await terms.getByLabel('Refund on the day (%)').fill('40')
  await terms.getByRole('button', { name: 'Save' }).click()
  await expect(terms.getByText('Saved')).toBeVisible()

  const venue = await server.api<{ tables: unknown; policy: { refundSameDay: number } }>(undefined, 'GET', `/api/venues/${id}`)
  expect(venue.tables).toEqual([{ number: 1, seats: 4 }, { number: 2, seats: 2 }])
  expect(venue.policy.refundSameDay).toBe(40)
  await page.goto(`/venues/${id}?date=${tomorrow}`)
  await expect(page.getByRole('radio', { name: /^12:00 2 tables left/ })).toBeVisible()
  await context.close()
})

test('nobody else sees a board', async ({ person, venue }) => {
  const { id } = await venue({ capacity: 20 })
  const { page } = await person()
  await page.goto(`/staff/${id}/board`)
  await expect(page.getByRole('alert')).toContainText('Only the staff of this venue may do that.')
})
