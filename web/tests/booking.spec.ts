import { book, chooseTime, dialog, payDeposit } from './steps'
import { expect, test, watch } from './world'

test('a new guest books a place', async ({ browser, server, venue, tomorrow }) => {
  const { id } = await venue({ name: 'Noodle Corner', capacity: 20 })
  const context = await browser.newContext({ baseURL: server.url })
  const page = await context.newPage()
  watch(page, server)
  await page.goto('/')
  await page.getByRole('link', { name: /Noodle Corner/ }).click()
  await page.goto(`/venues/${id}?date=${tomorrow}`)
  await page.getByRole('radio', { name: /^12:00 20 left/ }).check()
  await payDeposit(page)

  await page.getByRole('button', { name: 'New here? Create an account' }).click()
  await page.getByLabel('Name').fill('Kim Minji')
  await page.getByLabel('E-mail').fill('minji@example.com')
  await page.getByLabel('Password').fill('correct horse')
  await page.getByRole('button', { name: 'Create the account' }).click()

  // What was chosen before signing in is still chosen.
  await expect(page.getByRole('radio', { name: /^12:00/ })).toBeChecked()
  await payDeposit(page)
  await expect(page.getByRole('timer')).toHaveText(/^[67]:\d\d$/)
  await page.getByRole('button', { name: 'Charge ₩10,000 and pay' }).click()
  await expect(page.getByText('You are expected')).toBeVisible()
  await page.goto('/reservations')
  await expect(page.getByRole('link', { name: /Noodle Corner.*12:00.*2 people.*Confirmed/s })).toBeVisible()
  await context.close()
})

test('dishes are chosen and prepaid', async ({ person, venue, tomorrow }) => {
  const { id } = await venue({ capacity: 20 }, [{ name: 'Cold noodles', price: 11_000 }, { name: 'Barley tea', price: 3_000 }])
  const { page } = await person(100_000)
  await chooseTime(page, id, tomorrow, '13:00', 3)
  await page.getByRole('link', { name: 'Choose dishes and prepay' }).click()
  await page.getByRole('button', { name: 'One more: Cold noodles' }).dblclick()
  await page.getByRole('button', { name: 'One more: Barley tea' }).click()
  await page.getByRole('button', { name: 'Prepay · ₩25,000' }).click()
  await page.getByRole('button', { name: 'Pay ₩25,000' }).click()
  await expect(page.getByText('Prepaid')).toBeVisible()
  await expect(page.getByText('Cold noodles × 2')).toBeVisible()
  await page.goto('/wallet')
  await expect(page.getByTestId('balance')).toHaveText('₩75,000')
})

test('two browsers on the last place: one gets it, the other a receipt and the waitlist, and then the place', async ({ person, venue, tomorrow }) => {
  const { id } = await venue({ capacity: 2 })
  const [one, two] = [await person(50_000), await person(50_000)]
  for (const { page } of [one, two]) await chooseTime(page, id, tomorrow, '12:00', 2)
  await Promise.all([payDeposit(one.page), payDeposit(two.page)])
  const won = (p: typeof one) => p.page.getByRole('heading', { name: 'Held for you' }).waitFor().then(() => p)
  const winner = await Promise.race([won(one), won(two)])
  const loser = winner === one ? two : one

  await expect(dialog(loser.page)).toContainText('Sold out at your turn')
  await expect(dialog(loser.page).getByRole('region', { name: 'Receipt' })).toContainText('Your number2')
  await dialog(loser.page).getByRole('button', { name: 'Join the waitlist' }).click()
  await loser.page.getByRole('button', { name: 'Join the waitlist' }).click()
  await expect(loser.page.getByText('You are number 1 on the waitlist.')).toBeVisible()

  await winner.page.getByRole('button', { name: 'Cancel the reservation' }).click()
  await expect(winner.page.getByTestId('refund')).toHaveText('Nothing was paid, so nothing is lost.')
  await winner.page.getByRole('button', { name: 'Yes, cancel' }).click()
  await expect(winner.page.getByText('Cancelled', { exact: true })).toBeVisible()

  await loser.page.goto('/reservations')
  await loser.page.getByRole('link', { name: /Test Kitchen/ }).first().click()
  await expect(loser.page.getByRole('heading', { name: 'A place has become free for you' })).toBeVisible()
  await loser.page.getByRole('button', { name: 'Pay ₩10,000' }).click()
  await expect(loser.page.getByText('You are expected')).toBeVisible()
})

test('what comes back is shown before cancelling, and is what comes back', async ({ person, venue, tomorrow }) => {
  const { id } = await venue({ capacity: 20, policy: { refundBeforeDay: 70 } })
  const { page } = await person(10_000)
  await book(page, id, tomorrow, '12:00')
  await page.getByRole('button', { name: 'Cancel the reservation' }).click()
  await expect(page.getByTestId('refund')).toHaveText('₩7,000 (70 %) comes back to your wallet.')
  await page.getByRole('button', { name: 'Yes, cancel' }).click()
  await expect(page.getByText('Refunded').first()).toBeVisible()
  await page.goto('/wallet')
  await expect(page.getByTestId('balance')).toHaveText('₩7,000')
  await expect(page.getByRole('listitem').filter({ hasText: 'Refund' })).toContainText('+₩7,000')
})

test('a change tells what it costs, and keeps what one has until it is done', async ({ person, venue, tomorrow }) => {
  const { id } = await venue({ capacity: 4 })
  const { page } = await person(100_000)
  await book(page, id, tomorrow, '12:00', 2)
  await page.getByRole('button', { name: 'Change' }).click()
  const change = dialog(page)
  await change.getByRole('button', { name: 'One person more' }).click()
  await expect(page.getByTestId('change-cost')).toHaveText('₩5,000 more will be paid from your wallet.')
  await change.getByLabel('At what time?').selectOption('15:00')
  await change.getByRole('button', { name: 'Change it' }).click()
  await expect(page.locator('.lead')).toContainText('15:00 · 3 people')

  await page.getByRole('button', { name: 'Change' }).click()
  for (let n = 0; n < 2; n++) await change.getByRole('button', { name: 'One person more' }).click()
  await change.getByRole('button', { name: 'Change it' }).click()
  await expect(change.getByRole('alert')).toContainText('place')
  await change.getByRole('button', { name: 'Keep it' }).click()
  await expect(page.locator('.lead')).toContainText('15:00 · 3 people')
})

test('a hold that is not paid runs out on the screen, and can be had back while there is room', async ({ person, venue, tomorrow }) => {
  const { id } = await venue({ capacity: 20, policy: { holdSeconds: 5 } })
  const { page } = await person(50_000)
  await chooseTime(page, id, tomorrow, '12:00')
  await payDeposit(page)
  await expect(page.getByRole('timer')).toHaveText(/^0:0[1-5]$/)
  await expect(page.getByRole('heading', { name: 'The time to pay has run out' })).toBeVisible()
  await page.getByRole('button', { name: 'Try to get it back' }).click()
  await expect(page.getByText('You are expected')).toBeVisible()
})

test('pressing twice, going back and coming again make one reservation', async ({ person, venue, tomorrow, server }) => {
  const { id } = await venue({ capacity: 20 })
  const { page, token } = await person(50_000)
  await chooseTime(page, id, tomorrow, '12:00')
  await page.getByRole('button', { name: /^Pay the deposit/ }).dblclick()
  await expect(page.getByRole('heading', { name: 'Held for you' })).toBeVisible()
  await page.goBack()
  await payDeposit(page)
  // While the guard lasts the press leads to the reservation that there is; after that it is a conflict.
  await expect(page.getByRole('heading', { name: 'Held for you' }).or(dialog(page))).toBeVisible()
  const { items } = await server.api<{ items: unknown[] }>(token, 'GET', '/api/reservations')
  expect(items).toHaveLength(1)
})

test('a second booking of the same time is a conflict, and leads home', async ({ person, venue, tomorrow, server }) => {
  const { id } = await venue({ capacity: 20 })
  const { page, token } = await person(50_000)
  const wish = { venueId: id, date: tomorrow, time: '12:00', partySize: 2, payment: 'deposit' }
  const first = await server.api<{ id: string }>(token, 'POST', '/api/reservations', wish)
  await server.api(token, 'POST', `/api/reservations/${first.id}/payment`, { method: 'points' })
  // The guard against double clicks outlives a success by five seconds (A5).
  const asked = () => server.ask(token, 'POST', '/api/reservations', wish).then((answer) => answer.json())
  await expect.poll(async () => ((await asked()) as { code: string }).code).toBe('already-booked')
  await chooseTime(page, id, tomorrow, '12:00')
  await payDeposit(page)
  await expect(dialog(page)).toContainText('You already have a reservation then')
  await dialog(page).getByRole('button', { name: 'Back to all venues' }).click()
  await expect(page.getByRole('heading', { name: 'Where to?' })).toBeVisible()
})

test('what is no conflict is told in place, without a dialog', async ({ person, venue, tomorrow, server }) => {
  const { id } = await venue({ capacity: 20, requestsPerSecond: 1 })
  const { page } = await person(50_000)
  await chooseTime(page, id, tomorrow, '12:00')
  const others = server.tokens(3)
  const wish = { venueId: id, date: tomorrow, time: '13:00', partySize: 1, payment: 'deposit' }
  await page.route('**/api/reservations', async (route) => {
    await Promise.all(others.map((token) => server.ask(token, 'POST', '/api/reservations', wish)))
    await route.continue()
  })
  await payDeposit(page)
  await expect(page.getByRole('alert')).toContainText('Many people are asking at this moment')
  await expect(dialog(page)).toBeHidden()
})

test('Korean, from the browser and by choice', async ({ browser, server, venue }) => {
  await venue({ name: '한국 식당', capacity: 20 })
  const context = await browser.newContext({ baseURL: server.url, locale: 'ko-KR' })
  const page = await context.newPage()
  await page.goto('/')
  await expect(page.getByRole('heading', { name: '어디로 갈까요?' })).toBeVisible()
  await expect(page.locator('html')).toHaveAttribute('lang', 'ko')
  await page.getByRole('button', { name: 'English' }).click()
  await expect(page.getByRole('heading', { name: 'Where to?' })).toBeVisible()
  await page.reload()
  await expect(page.getByRole('heading', { name: 'Where to?' })).toBeVisible()
  await context.close()
})
