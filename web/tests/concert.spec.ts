import { dialog } from './steps'
import { expect, signedIn, test } from './world'

const HALL = (tomorrow: string) => ({
  name: 'Small Hall',
  kind: 'concert',
  inventory: 'seats',
  sections: [
    { name: 'A', price: 90_000, rows: [{ name: '1', seats: 8 }, { name: '2', seats: 10 }] },
    { name: 'B', price: 60_000, rows: [{ name: '1', seats: 12 }, { name: '2', seats: 12 }] },
  ],
  shows: [{ date: tomorrow, times: ['19:00'] }],
})

test('seats are chosen on the map, held and paid; somebody else sees them go', async ({ person, venue, tomorrow }) => {
  const { id } = await venue(HALL(tomorrow))
  const [one, two] = [await person(500_000), await person(500_000)]
  for (const { page } of [one, two]) await page.goto(`/venues/${id}`)
  await one.page.getByRole('checkbox', { name: /Section A, row 1, seat 4/ }).click()
  await one.page.getByRole('checkbox', { name: /Section A, row 1, seat 5/ }).click()
  await two.page.getByRole('checkbox', { name: /Section A, row 1, seat 5/ }).click()
  await one.page.getByRole('button', { name: 'Hold 2 seats · ₩180,000' }).click()
  await expect(one.page.getByRole('heading', { name: 'Held for you' })).toBeVisible()

  await expect(two.page.getByText('A-1-5 has just been taken by somebody else.')).toBeVisible()
  await expect(two.page.getByRole('checkbox', { name: /Section A, row 1, seat 5, .*held by somebody/ })).toBeVisible()
  await one.page.getByRole('button', { name: 'Pay ₩180,000' }).click()
  await expect(one.page.getByText('You are expected')).toBeVisible()
  await expect(one.page.getByText('A-1-4, A-1-5')).toBeVisible()
  await expect(two.page.getByRole('checkbox', { name: /Section A, row 1, seat 5, .*sold/ })).toBeVisible()
})

test('the best together', async ({ person, venue, tomorrow }) => {
  const { id } = await venue(HALL(tomorrow))
  const { page } = await person(500_000)
  await page.goto(`/venues/${id}`)
  await page.getByRole('button', { name: 'One person more' }).click()
  await page.getByLabel('Where').selectOption('B')
  await page.getByRole('button', { name: 'Find the best 3 together' }).click()
  await expect(page.getByText(/^B-1-\d+, B-1-\d+, B-1-\d+$/)).toBeVisible()
  await expect(page.getByRole('button', { name: 'Pay ₩180,000' })).toBeVisible()
})

test('two people want the same seat at once: one has it, the other is told so', async ({ person, venue, tomorrow, server }) => {
  const { id } = await venue(HALL(tomorrow))
  const [one, two] = [await person(500_000), await person(500_000)]
  await one.page.goto(`/venues/${id}`)
  await one.page.getByRole('checkbox', { name: /Section A, row 1, seat 4/ }).click()
  const wish = { venueId: id, date: tomorrow, time: '19:00', seats: ['A-1-4'], payment: 'prepay' }
  // Taken between the last look and the press.
  await one.page.route('**/api/reservations', async (route) => {
    await server.api(two.token, 'POST', '/api/reservations', wish)
    await route.continue()
  })
  await one.page.getByRole('button', { name: 'Hold 1 seat' }).click()
  await expect(dialog(one.page)).toContainText('Those seats were taken a moment before you')
  await dialog(one.page).getByRole('button', { name: 'Choose another time' }).click()
  await expect(one.page.getByRole('checkbox', { name: /Section A, row 1, seat 4, .*held/ })).toBeVisible()
})

test('from the waiting room to the seat map to the payment', async ({ person, venue, tomorrow, server }) => {
  const { id, staff } = await venue(HALL(tomorrow))
  await server.api(staff, 'PUT', `/api/venues/${id}/opening`, { opensAt: new Date(Date.now() - 1_000).toISOString() })
  await server.api(staff, 'PUT', `/api/venues/${id}/waiting-room`, { enabled: true, size: 1 })
  const first = server.tokens(1)[0]!
  await server.api(first, 'POST', `/api/venues/${id}/queue-tokens`)

  const { page } = await person(500_000)
  // Whoever goes to the seats directly waits in front as well.
  await page.goto(`/venues/${id}`)
  await expect(page).toHaveURL(/waiting-room/)
  await page.getByRole('button', { name: 'Enter the waiting room' }).click()
  await expect(page.getByTestId('number')).toHaveText('2')
  await expect(page.getByTestId('ahead')).toHaveText(/^[01]$/)
  await page.reload()
  await expect(page.getByTestId('number')).toHaveText('2')

  await server.api(first, 'DELETE', `/api/venues/${id}/queue-tokens/current`)
  await page.getByRole('checkbox', { name: /Section A, row 1, seat 4/ }).click()
  await page.getByRole('button', { name: 'Hold 1 seat · ₩90,000' }).click()
  await page.getByRole('button', { name: 'Pay ₩90,000' }).click()
  await expect(page.getByText('You are expected')).toBeVisible()
})

test('before the opening there is a countdown, and numbers when it comes', async ({ person, venue, tomorrow, server }) => {
  const { id, staff } = await venue(HALL(tomorrow))
  const { page } = await person(500_000)
  await page.goto(`/venues/${id}/waiting-room`)
  await server.api(staff, 'PUT', `/api/venues/${id}/opening`, { opensAt: new Date(Date.now() + 6_000).toISOString(), order: 'draw' })
  await server.api(staff, 'PUT', `/api/venues/${id}/waiting-room`, { enabled: true, size: 5 })
  await page.reload()
  await page.getByRole('button', { name: 'Enter the waiting room' }).click()
  await expect(page.getByText('Opens in')).toBeVisible()
  await expect(page.getByText('Seal of the draw')).toBeVisible()
  // It opens by itself: there is room for five, so the only one who came is let in.
  await expect(page.getByRole('checkbox', { name: /Section A, row 1, seat 4/ })).toBeVisible({ timeout: 20_000 })
})

test('staff set the opening and the waiting room', async ({ browser, venue, tomorrow, server }) => {
  const { id, staff } = await venue(HALL(tomorrow))
  const context = await browser.newContext({ baseURL: server.url })
  await signedIn(context, staff)
  const page = await context.newPage()
  await page.goto(`/staff/${id}/door`)
  await page.getByLabel('Who came before the opening').selectOption('draw')
  await page.getByRole('button', { name: 'Set the opening' }).click()
  await expect(page.getByText('Saved')).toBeVisible()
  await page.getByLabel('Waiting room on').check()
  await page.getByLabel('People inside at once').fill('25')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByText('Saved')).toBeVisible()
  expect(await server.api(undefined, 'GET', `/api/venues/${id}`)).toMatchObject({ opening: { order: 'draw', waitingRoom: { enabled: true, size: 25 } } })
  await context.close()
})
