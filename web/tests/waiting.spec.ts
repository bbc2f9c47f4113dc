import { chooseTime, dialog, numberInLine, payDeposit } from './steps'
import { crowd, expect, test, watch } from './world'

// A disk on which a commit takes 150 ms, and five people a commit: two hundred take six seconds.
test.use({ speed: { disk: 150, batch: 5 } })

const GUESTS = 200

test('two hundred guests, and one person who watches the dialog count down to the answer', async ({ person, venue, tomorrow, server }) => {
  const { id } = await venue({ capacity: 1_000 })
  const { page } = await person(50_000)
  await chooseTime(page, id, tomorrow, '12:00')
  const others = crowd(server, server.tokens(GUESTS), { venueId: id, date: tomorrow, time: '12:00', partySize: 1, payment: 'deposit' })
  await others
  await payDeposit(page)
  const number = await numberInLine(page)
  expect(number).toBeGreaterThan(GUESTS)
  await expect(page.getByTestId('expected')).toHaveText(/^about \d+ s$/)

  const seen: number[] = []
  const bar: number[] = []
  while (await page.getByTestId('ahead').isVisible()) {
    const ahead = await page.getByTestId('ahead').innerText({ timeout: 1_000 }).catch(() => '')
    const moved = await page.getByRole('progressbar').getAttribute('aria-valuenow', { timeout: 1_000 }).catch(() => null)
    if (/^\d+$/.test(ahead)) seen.push(Number(ahead))
    if (moved) bar.push(Number(moved))
    await page.waitForTimeout(100)
  }
  expect(new Set(seen).size, `seen: ${seen}`).toBeGreaterThan(2)
  expect(seen).toEqual([...seen].sort((a, b) => b - a))
  expect(bar).toEqual([...bar].sort((a, b) => a - b))
  await expect(page.getByRole('heading', { name: 'Held for you' })).toBeVisible()
  await expect(page.getByText('Number in line').locator('xpath=following-sibling::dd[1]')).toHaveText(String(number))
})

test('a refused guest sees the receipt: the number, and what was left at that turn', async ({ person, venue, tomorrow, server }) => {
  const { id } = await venue({ capacity: 5 })
  const { page } = await person(50_000)
  await chooseTime(page, id, tomorrow, '12:00')
  await crowd(server, server.tokens(150), { venueId: id, date: tomorrow, time: '12:00', partySize: 1, payment: 'deposit' })
  await payDeposit(page)
  const number = await numberInLine(page)
  const receipt = dialog(page).getByRole('region', { name: 'Receipt' })
  await expect(receipt).toBeVisible({ timeout: 20_000 })
  await expect(receipt).toContainText(`Your number${number}`)
  await expect(receipt).toContainText('Left at your turn0')
  await expect(dialog(page).getByRole('button', { name: 'Join the waitlist' })).toBeVisible()
})

test('reloading in the middle of waiting keeps the place, and so does closing the dialog', async ({ person, venue, tomorrow, server }) => {
  const { id } = await venue({ capacity: 1_000 })
  const { page } = await person(50_000)
  await chooseTime(page, id, tomorrow, '12:00')
  await crowd(server, server.tokens(GUESTS), { venueId: id, date: tomorrow, time: '12:00', partySize: 1, payment: 'deposit' })
  await payDeposit(page)
  const number = await numberInLine(page)
  await page.reload()
  expect(await numberInLine(page)).toBe(number)
  await page.keyboard.press('Escape')
  await expect(dialog(page)).toBeHidden()
  await page.getByRole('button', { name: new RegExp(`In line: number ${number}`) }).click()
  expect(await numberInLine(page)).toBe(number)
  await expect(page.getByRole('heading', { name: 'Held for you' })).toBeVisible({ timeout: 20_000 })
})

test('the place moves to a second browser by a link that works once', async ({ person, browser, venue, tomorrow, server }) => {
  const { id } = await venue({ capacity: 1_000 })
  const { page } = await person(50_000)
  await chooseTime(page, id, tomorrow, '12:00')
  await crowd(server, server.tokens(GUESTS), { venueId: id, date: tomorrow, time: '12:00', partySize: 1, payment: 'deposit' })
  await payDeposit(page)
  const number = await numberInLine(page)
  await page.getByRole('button', { name: 'Continue on another device' }).click()
  await expect(page.getByRole('img', { name: 'Continue on another device' })).toBeVisible()
  const link = await page.getByTestId('move-link').inputValue()

  // Another device: nobody is signed in there.
  const device = await browser.newContext({ baseURL: server.url })
  const other = await device.newPage()
  watch(other, server)
  await other.goto(link)
  expect(await numberInLine(other)).toBe(number)
  expect(other.url()).not.toContain('#')
  await page.context().close()
  await expect(other.getByRole('heading', { name: 'Held for you' })).toBeVisible({ timeout: 20_000 })
  await other.getByRole('button', { name: /^Pay ₩10,000/ }).click()
  await expect(other.getByText('You are expected')).toBeVisible()
  // It is this place that came along, not the account.
  await other.goto('/wallet')
  await expect(other.getByRole('heading', { name: 'Sign in' })).toBeVisible()

  const third = await device.newPage()
  await third.goto(link)
  await expect(third.getByText('This link does not work any more.')).toBeVisible()
  await device.close()
})

test('leaving the line', async ({ person, venue, tomorrow, server }) => {
  const { id } = await venue({ capacity: 1_000 })
  const { page, token } = await person(50_000)
  await chooseTime(page, id, tomorrow, '12:00')
  await crowd(server, server.tokens(GUESTS), { venueId: id, date: tomorrow, time: '12:00', partySize: 1, payment: 'deposit' })
  await payDeposit(page)
  await numberInLine(page)
  await page.getByRole('button', { name: 'Leave the line' }).click()
  await page.getByRole('button', { name: 'Leave the line' }).click()
  await expect(dialog(page)).toBeHidden()
  await expect(page.getByRole('button', { name: /^Pay the deposit/ })).toBeEnabled()
  expect(await server.api(token, 'GET', '/api/reservations')).toMatchObject({ items: [] })
})

test('the server is killed in the middle and comes back: the page recovers by itself', async ({ person, venue, tomorrow, server }) => {
  const { id } = await venue({ capacity: 1_000 })
  const { page, token } = await person(50_000)
  await chooseTime(page, id, tomorrow, '12:00')
  await crowd(server, server.tokens(GUESTS), { venueId: id, date: tomorrow, time: '12:00', partySize: 1, payment: 'deposit' })
  await payDeposit(page)
  await numberInLine(page)
  await server.kill()
  await expect(dialog(page).getByText('The connection is interrupted.', { exact: false })).toBeVisible()
  await server.begin()
  await expect(page.getByRole('heading', { name: 'Held for you' })).toBeVisible({ timeout: 30_000 })
  const { items } = await server.api<{ items: unknown[] }>(token, 'GET', '/api/reservations')
  expect(items).toHaveLength(1)
})
