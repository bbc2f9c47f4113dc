/** Every page at two widths: nothing serious or critical for axe, in light and dark, and a picture for docs/screens. */
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { Page } from '@playwright/test'
import { chooseTime, dialog, numberInLine, payDeposit } from './steps'
import { crowd, expect, signedIn, test } from './world'

test.use({ speed: { disk: 150, batch: 5 } })
test.setTimeout(240_000)
// Each width has a server of its own, so that both see the same.
test.describe.configure({ mode: 'parallel' })

const SCREENS = fileURLToPath(new URL('../../docs/screens/', import.meta.url))
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface Finding {
  id: string
  impact: string
  nodes: { html: string; failureSummary: string }[]
}

async function check(page: Page, name: string): Promise<void> {
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    // Colours that are still changing are neither of the two.
    await page.evaluate(async () => {
      await new Promise(requestAnimationFrame)
      const ended = Promise.allSettled(document.getAnimations().map((animation) => animation.finished))
      await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 500))])
    })
    await page.evaluate(AXE)
    const found = await page.evaluate(async () => {
      const axe = (globalThis as unknown as { axe: { run: (options: object) => Promise<{ violations: unknown[] }> } }).axe
      return (await axe.run({ resultTypes: ['violations'] })).violations
    })
    const bad = (found as Finding[]).filter(({ impact }) => impact === 'serious' || impact === 'critical')
    expect(bad.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`), `${name}, ${colorScheme}`).toEqual([])
  }
}

for (const width of [390, 1280]) {
  test(`all pages at ${width} px`, async ({ browser, server, venue, tomorrow }) => {
    mkdirSync(SCREENS, { recursive: true })
    const height = width === 390 ? 844 : 860
    const open = async (token?: string) => {
      const context = await browser.newContext({ baseURL: server.url, viewport: { width, height }, locale: 'en-GB', timezoneId: 'Asia/Seoul', reducedMotion: 'reduce' })
      if (token) await signedIn(context, token)
      return context.newPage()
    }
    const picture = async (page: Page, name: string) => {
      await page.evaluate(() => document.fonts.ready)
      await page.screenshot({ path: `${SCREENS}${name}-${width}.png`, animations: 'disabled', caret: 'hide' })
    }
    const shoot = async (page: Page, name: string) => {
      await picture(page, name)
      await check(page, name)
    }
    const hall = await venue({
      name: 'Spring Concert', kind: 'concert', inventory: 'seats', shows: [{ date: tomorrow, times: ['19:00'] }],
      sections: [
        { name: 'A', price: 90_000, rows: [8, 10, 10].map((seats, n) => ({ name: String(n + 1), seats })) },
        { name: 'B', price: 60_000, rows: [12, 12].map((seats, n) => ({ name: String(n + 1), seats })) },
      ],
    })
    const kitchen = await venue({ name: 'Persimmon House', capacity: 900 }, [{ name: 'Cold noodles', price: 11_000 }, { name: 'Dumplings', price: 8_000 }, { name: 'Barley tea', price: 3_000 }])
    const [guest, other] = server.tokens(2) as [string, string]
    for (const token of [guest, other]) await server.api(token, 'POST', '/api/wallet/charges', { amount: 120_000 })
    const wish = { venueId: kitchen.id, date: tomorrow, time: '19:00', partySize: 1, payment: 'deposit' }

    const stranger = await open()
    await stranger.goto('/')
    await expect(stranger.getByRole('link', { name: /Persimmon House.*Next/s })).toBeVisible()
    await shoot(stranger, 'venues')
    await stranger.goto('/sign-in')
    await expect(stranger.getByLabel('E-mail')).toBeVisible()
    await shoot(stranger, 'sign-in')
    await stranger.goto('/nowhere')
    await expect(stranger.getByRole('heading', { name: 'There is nothing at this address' })).toBeVisible()
    await check(stranger, 'nowhere')

    const page = await open(guest)
    await chooseTime(page, kitchen.id, tomorrow, '12:00')
    await expect(page.getByRole('link', { name: 'Choose dishes and prepay' })).toBeVisible()
    await page.evaluate(() => window.scrollTo(0, 0))
    await shoot(page, 'booking')
    await page.getByRole('link', { name: 'Choose dishes and prepay' }).click()
    await page.getByRole('button', { name: 'One more: Cold noodles' }).click()
    await page.getByRole('button', { name: 'One more: Barley tea' }).dblclick()
    await shoot(page, 'menu')

    const staff = await open(kitchen.staff)
    await staff.goto(`/staff/${kitchen.id}/board`)
    await chooseTime(page, kitchen.id, tomorrow, '19:00', 2)
    await crowd(server, server.tokens(480), wish)
    await payDeposit(page)
    await numberInLine(page)
    await picture(page, 'waiting')
    await expect(staff.getByTestId('board-waiting')).not.toHaveText('0')
    await expect(staff.getByTestId('board-pace')).not.toHaveText('0')
    await picture(staff, 'staff-board')
    await check(page, 'waiting')
    await page.getByRole('button', { name: 'Continue on another device' }).click()
    await expect(page.getByTestId('move-link')).toBeVisible()
    await shoot(page, 'move')
    await check(staff, 'staff-board')
    await expect(page.getByRole('heading', { name: 'Held for you' })).toBeVisible({ timeout: 30_000 })
    await shoot(page, 'hold')
    await page.getByRole('button', { name: /^Pay ₩/ }).click()
    await expect(page.getByText('You are expected')).toBeVisible()
    await shoot(page, 'reservation')
    await page.getByRole('button', { name: 'Change' }).click()
    await dialog(page).getByRole('button', { name: 'One person more' }).click()
    await expect(page.getByTestId('change-cost')).toBeVisible()
    await shoot(page, 'change')
    await page.getByRole('button', { name: 'Keep it' }).click()
    await page.getByRole('button', { name: 'Cancel the reservation' }).click()
    await expect(page.getByTestId('refund')).toBeVisible()
    await shoot(page, 'cancel')
    await page.getByRole('button', { name: 'Keep it' }).click()

    const small = await venue({ name: 'Corner Bar', capacity: 2 })
    await server.api(other, 'POST', '/api/reservations', { ...wish, venueId: small.id, partySize: 2 })
    await page.goto(`/venues/${small.id}?date=${tomorrow}&party=2`)
    await page.getByRole('radio', { name: /^19:00 full/ }).check()
    await page.getByRole('link', { name: 'Join the waitlist' }).click()
    await page.getByRole('button', { name: 'Join the waitlist' }).click()
    await expect(page.getByText('You are number 1 on the waitlist.')).toBeVisible()
    await shoot(page, 'waitlist')
    await page.goto('/reservations')
    await expect(page.getByRole('link', { name: /Persimmon House/ })).toBeVisible()
    await expect(page.getByRole('link', { name: /Corner Bar/ })).toBeVisible()
    await shoot(page, 'reservations')
    await page.goto('/wallet')
    await expect(page.getByTestId('balance')).toHaveText('₩110,000')
    await shoot(page, 'wallet')

    const late = await open(server.tokens(1)[0])
    await late.goto(`/venues/${small.id}?date=${tomorrow}&party=1&time=20:00`)
    // Taken between the last look and the press.
    await late.route('**/api/reservations', async (route) => {
      await server.api(guest, 'POST', '/api/reservations', { ...wish, venueId: small.id, time: '20:00', partySize: 2 })
      await route.continue()
    })
    await late.getByRole('button', { name: /^Pay the deposit/ }).click()
    await expect(dialog(late).getByRole('region', { name: 'Receipt' })).toBeVisible()
    await shoot(late, 'refused')

    await server.api(other, 'POST', '/api/reservations', { venueId: hall.id, date: tomorrow, time: '19:00', partySize: 4, payment: 'prepay' })
    await page.goto(`/venues/${hall.id}`)
    await expect(page.getByRole('checkbox', { name: /held by somebody/ }).first()).toBeVisible()
    await page.getByRole('checkbox', { name: /Section A, row 2, seat 5/ }).click()
    await page.getByRole('checkbox', { name: /Section A, row 2, seat 6/ }).click()
    await page.evaluate(() => window.scrollTo(0, 0))
    await shoot(page, 'seats')

    await server.api(hall.staff, 'PUT', `/api/venues/${hall.id}/opening`, { opensAt: new Date(Date.now() - 1_000).toISOString() })
    await server.api(hall.staff, 'PUT', `/api/venues/${hall.id}/waiting-room`, { enabled: true, size: 1 })
    await Promise.all(server.tokens(40).map((token) => server.api(token, 'POST', `/api/venues/${hall.id}/queue-tokens`)))
    await page.goto(`/venues/${hall.id}`)
    await page.getByRole('button', { name: 'Enter the waiting room' }).click()
    await expect(page.getByTestId('number')).toHaveText('41')
    await shoot(page, 'waiting-room')

    await staff.goto('/staff')
    await expect(staff.getByTestId('board-held')).toBeVisible()
    await shoot(staff, 'staff')
    await staff.goto(`/staff/${kitchen.id}?date=${tomorrow}`)
    await expect(staff.getByRole('region', { name: '19:00' })).toBeVisible()
    await shoot(staff, 'staff-day')
    await staff.goto(`/staff/${kitchen.id}/settings`)
    await expect(staff.getByRole('heading', { name: 'Terms' })).toBeVisible()
    await shoot(staff, 'staff-settings')
    await staff.goto(`/staff/${kitchen.id}/door`)
    await expect(staff.getByRole('heading', { name: 'Opening of the sale' })).toBeVisible()
    await shoot(staff, 'staff-door')
    for (const opened of [stranger, page, staff, late]) await opened.context().close()
  })
}
