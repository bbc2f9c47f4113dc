import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))

test('the types are those of the document that the server tells', async () => {
  const [document, kept] = [at('../../../../docs/openapi.json'), at('../src/api.ts')]
  const made = promisify(execFile)('openapi-typescript', [document, '-o', kept, '--check'], {
    env: { ...process.env, PATH: `${at('../../../node_modules/.bin')}:${process.env.PATH}` },
  })
  await expect(made, 'refresh packages/client/src/api.ts with: npm run types').resolves.toBeDefined()
}, 30_000)
