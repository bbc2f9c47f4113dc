import type { Page } from '@playwright/test'
import { expect, test, watch } from './world'

/** Presses Tab until this has the focus, as somebody without a mouse does. */
async function tabTo(page: Page, name: RegExp | string): Promise<void> {
  for (let n = 0; n < 80; n++) {
    await page.keyboard.press('Tab')
    const text = await page.evaluate(() => {
      const focused = document.activeElement as HTMLInputElement | null
      return focused?.getAttribute('aria-label') ?? focused?.labels?.[0]?.innerText ?? focused?.innerText ?? ''
    })
    if (typeof name === 'string' ? text.trim() === name : name.test(text)) return
  }
  throw new Error(`the keyboard does not reach ${name}`)
}

test('every flow by keyboard alone', async ({ browser, server, venue, tomorrow }) => {
  const { id } = await venue({ name: 'Keyboard Kitchen', capacity: 20 }, [{ name: 'Cold noodles', price: 11_000 }])
  const context = await browser.newContext({ baseURL: server.url })
  const page = await context.newPage()
  watch(page, server)

  // Sign up.
  await page.goto('/')
  await tabTo(page, 'Skip to the content')
  await tabTo(page, 'Sign in')
  await page.keyboard.press('Enter')
  await tabTo(page, 'New here? Create an account')
  await page.keyboard.press('Enter')
  await page.keyboard.press('Shift+Tab')
  await expect(page.getByRole('heading', { name: 'Create an account' })).toBeVisible()
  await page.getByLabel('Name').focus()
  await page.keyboard.type('Kim Keys')
  await tabTo(page, 'E-mail')
  await page.keyboard.type('keys@example.com')
  await tabTo(page, 'Password')
  await page.keyboard.type('correct horse')
  await page.keyboard.press('Enter')

  // Charge the wallet.
  await expect(page.getByRole('button', { name: 'Sign out' })).toBeVisible()
  await page.goto('/wallet')
  await tabTo(page, '₩100,000')
  await page.keyboard.press('Space')
  await tabTo(page, 'Add ₩100,000')
  await page.keyboard.press('Enter')
  await expect(page.getByTestId('balance')).toHaveText('₩100,000')

  // Book: the venue, one person more, the day with the arrows, the time.
  await page.goto('/')
  await tabTo(page, /Keyboard Kitchen/)
  await page.keyboard.press('Enter')
  await tabTo(page, 'One person more')
  await page.keyboard.press('Space')
  await tabTo(page, /^\w{3},? \d+ \w+/)
  const start = await page.locator(':focus').getAttribute('data-date')
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  const week = new Date(Date.parse(`${start}T00:00:00Z`) + 7 * 86_400_000).toISOString().slice(0, 10)
  await expect(page).toHaveURL(new RegExp(`date=${week}`))
  await expect(page.getByRole('radio').first()).toBeVisible()
  await tabTo(page, /^11:00/)
  await page.keyboard.press('Space')
  await page.keyboard.press('ArrowDown')
  await expect(page.getByRole('radio', { name: /^12:00/ })).toBeChecked()
  await tabTo(page, /^Pay the deposit · ₩15,000/)
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { name: 'Held for you' })).toBeVisible()
  await tabTo(page, 'Pay ₩15,000')
  await page.keyboard.press('Enter')
  await expect(page.getByText('You are expected')).toBeVisible()

  // Change, then cancel.
  await tabTo(page, 'Change')
  await page.keyboard.press('Enter')
  await tabTo(page, 'One person fewer')
  await page.keyboard.press('Space')
  await expect(page.getByTestId('change-cost')).toBeVisible()
  await tabTo(page, 'Change it')
  await page.keyboard.press('Enter')
  await expect(page.locator('.lead')).toContainText('2 people')
  await tabTo(page, 'Cancel the reservation')
  await page.keyboard.press('Enter')
  await page.keyboard.press('Escape')
  // The focus is where it was.
  await expect(page.getByRole('button', { name: 'Cancel the reservation' })).toBeFocused()
  await page.keyboard.press('Enter')
  await expect(page.getByTestId('refund')).toBeVisible()
  await tabTo(page, 'Yes, cancel')
  await page.keyboard.press('Enter')
  await expect(page.getByText('Refunded').first()).toBeVisible()

  // Dishes and prepay.
  await page.goto(`/venues/${id}/menu?date=${tomorrow}&time=13:00&party=2`)
  await tabTo(page, 'One more: Cold noodles')
  await page.keyboard.press('Space')
  await tabTo(page, 'Prepay · ₩11,000')
  await page.keyboard.press('Enter')
  await tabTo(page, 'Pay ₩11,000')
  await page.keyboard.press('Enter')
  await expect(page.getByText('Prepaid')).toBeVisible()

  // A seat, with the arrows.
  const hall = await venue({ name: 'Keyboard Hall', kind: 'concert', inventory: 'seats', sections: [{ name: 'A', price: 9_000, rows: [{ name: '1', seats: 6 }, { name: '2', seats: 6 }] }], shows: [{ date: tomorrow, times: ['19:00'] }] })
  await page.goto(`/venues/${hall.id}`)
  await expect(page.getByRole('checkbox').first()).toBeVisible()
  await tabTo(page, /Section A, row 1, seat 1/)
  for (const key of ['ArrowRight', 'ArrowRight', 'ArrowDown']) await page.keyboard.press(key)
  await expect(page.getByRole('checkbox', { name: /row 2, seat 3/ })).toBeFocused()
  await page.keyboard.press('Space')
  await tabTo(page, 'Hold 1 seat · ₩9,000')
  await page.keyboard.press('Enter')
  await tabTo(page, 'Pay ₩9,000')
  await page.keyboard.press('Enter')
  await expect(page.getByText('A-2-3')).toBeVisible()
  await context.close()
})
