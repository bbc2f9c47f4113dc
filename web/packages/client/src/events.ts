/**
 * Server-sent events over fetch. `EventSource` cannot send an `Authorization` header, and a token in the address would end
 * up in logs and histories.
 */
export interface ServerEvent {
  event: string
  data: string
}

/** Reads events until the stream ends. `alive` hears of every byte, comments that keep the connection open included. */
export async function* readEvents(body: ReadableStream<Uint8Array>, alive: () => void = () => {}): AsyncGenerator<ServerEvent> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  let event = ''
  let data: string[] = []
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      alive()
      const lines = (rest + decoder.decode(value, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      for (const written of lines) {
        const line = written.endsWith('\r') ? written.slice(0, -1) : written
        if (line === '') {
          if (data.length > 0) yield { event: event || 'message', data: data.join('\n') }
          event = ''
          data = []
        } else if (line.startsWith('event:')) event = line.slice(6).trim()
        else if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''))
      }
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}
