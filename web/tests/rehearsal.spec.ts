import { expect, signedIn, test } from './world'

test.use({ viewport: { width: 1280, height: 860 } })

test('a thousand guests at the press of a button, followed on the live board', async ({ browser, server, venue }) => {
  const { id, staff } = await venue({ name: 'Rehearsal Room', capacity: 20 })
  const context = await browser.newContext({ baseURL: server.url, viewport: { width: 1280, height: 860 } })
  await signedIn(context, staff)
  const page = await context.newPage()
  await page.goto(`/staff/${id}/board`)
  const card = page.getByRole('region', { name: 'Rehearsal' })
  const button = card.getByRole('button', { name: 'Send 1,000 guests' })
  await button.click()
  await expect(button).toBeDisabled()
  await expect(page.getByTestId('board-pace')).not.toHaveText('0')
  await expect(card.getByText('Nothing sold twice, nobody overtaken')).toBeVisible({ timeout: 60_000 })
  await expect(card.getByRole('status')).toContainText('1,000 came, 0 wait')
  await expect(button).toBeEnabled()
  // What the board says is what was sold: no more than there is, and all of it but what fits no party.
  const places = async (name: string) => Number(await page.getByTestId(name).innerText())
  await expect.poll(async () => (await places('board-sold')) + (await places('board-held'))).toBe(20)
  await context.close()
})
