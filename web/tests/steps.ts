/** What people do in the stories, a line each. */
import type { Page } from '@playwright/test'
import { expect } from './world'

export async function chooseTime(page: Page, venue: string, date: string, time: string, party = 2): Promise<void> {
  await page.goto(`/venues/${venue}?date=${date}&party=${party}`)
  await page.getByRole('radio', { name: new RegExp(`^${time}`) }).check()
}

export async function payDeposit(page: Page): Promise<void> {
  await page.getByRole('button', { name: /^Pay the deposit/ }).click()
}

/** Books and pays, to the end. */
export async function book(page: Page, venue: string, date: string, time: string, party = 2): Promise<void> {
  await chooseTime(page, venue, date, time, party)
  await payDeposit(page)
  await expect(page.getByRole('heading', { name: 'Held for you' })).toBeVisible()
  await page.getByRole('button', { name: /^Pay ₩/ }).click()
  await expect(page.getByText('You are expected')).toBeVisible()
}

export function dialog(page: Page) {
  return page.getByRole('dialog')
}

/** The number in the waiting dialog. */
export async function numberInLine(page: Page): Promise<number> {
  await expect(page.getByTestId('number')).toBeVisible({ timeout: 15_000 })
  return Number((await page.getByTestId('number').innerText()).replace(/\D/g, ''))
}
