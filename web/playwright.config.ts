import { defineConfig } from '@playwright/test'
import type { Speed } from './tests/server'

// Debian's browser; nothing is downloaded, and it talks to nobody but the server under test.
const launchOptions = {
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
}

export default defineConfig<object, { speed: Speed | undefined }>({
  testDir: 'tests',
  testMatch: '*.spec.ts',
  outputDir: 'test-results',
  workers: 2,
  fullyParallel: false,
  timeout: 60_000,
  expect: { timeout: 10_000 },
  reporter: [['list']],
  use: { testIdAttribute: 'data-test', launchOptions, locale: 'en-GB', timezoneId: 'Asia/Seoul', viewport: { width: 390, height: 844 }, trace: 'retain-on-failure' },
})
