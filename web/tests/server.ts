/** The real program, on a port and a folder of its own. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const PROGRAM = process.env.MAITRED ?? here('../../target/debug/maitred')

export interface Speed {
  /** How long the disk takes to sync. */
  disk: number
  /** How many people a batch takes. */
  batch: number
}

export class Server {
  readonly folder = mkdtempSync(join(tmpdir(), 'maitred-web-'))
  private child?: ChildProcess
  private said = ''

  private constructor(readonly port: number, private readonly speed?: Speed) {}

  static async start(speed?: Speed): Promise<Server> {
    if (!existsSync(PROGRAM)) throw new Error(`there is no ${PROGRAM}: build it with cargo build -p maitred`)
    const server = new Server(await freePort(), speed)
    await server.begin()
    return server
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  async begin(): Promise<void> {
    const environment: NodeJS.ProcessEnv = { ...process.env, MAITRED_LOG_FILTER: 'warn' }
    if (this.speed) {
      Object.assign(environment, { LD_PRELOAD: slowDisk(), DISK_MILLISECONDS: String(this.speed.disk) })
      environment.MAITRED_LANE_MAX_BATCH = String(this.speed.batch)
    }
    const child = spawn(PROGRAM, ['serve', '--demo', '--listen', `127.0.0.1:${this.port}`, '--data', this.folder], { env: environment })
    this.child = child
    child.stderr?.on('data', (text: Buffer) => (this.said += text.toString()))
    for (let tries = 0; tries < 600; tries++) {
      if (child.exitCode !== null) throw new Error(`maitred ended: ${this.said}`)
      const ready = await fetch(`${this.url}/health/ready`).then((response) => response.ok, () => false)
      if (ready) return
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    throw new Error(`maitred is not ready: ${this.said}`)
  }

  /** As if somebody had pulled the plug of the process. */
  async kill(): Promise<void> {
    const child = this.child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }

  async stop(): Promise<void> {
    await this.kill()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Access tokens for so many different people. */
  tokens(count: number): string[] {
    const said = execFileSync(PROGRAM, ['token', '--count', String(count), '--data', this.folder], { encoding: 'utf8' })
    return said.trim().split('\n')
  }

  async api<T = Record<string, unknown>>(token: string | undefined, method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
    const response = await this.ask(token, method, path, body, headers)
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return (text === '' ? undefined : JSON.parse(text)) as T
  }

  ask(token: string | undefined, method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
    const authorization: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {}
    const init: RequestInit = { method, headers: { ...authorization, 'content-type': 'application/json', ...headers } }
    if (body !== undefined) init.body = JSON.stringify(body)
    return fetch(this.url + path, init)
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}

let library: string | undefined
function slowDisk(): string {
  library ??= (() => {
    const made = join(mkdtempSync(join(tmpdir(), 'maitred-disk-')), 'slow-disk.so')
    execFileSync('cc', ['-O1', '-Wall', '-Werror', '-shared', '-fPIC', '-o', made, here('slow-disk.c')])
    return made
  })()
  return library
}
