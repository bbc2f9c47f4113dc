import { expect, test } from 'vitest'
import { waitInWords } from '../src'
import { readEvents } from '../src/events'

test.each([
  [125, 'about 2 min 5 s', '약 2분 5초'],
  [5, 'about 5 s', '약 5초'],
  [0, 'about 0 s', '약 0초'],
  [120, 'about 2 min', '약 2분'],
  [3_725, 'about 1 h 2 min', '약 1시간 2분'],
])('%i seconds', (seconds, en, ko) => {
  expect(waitInWords(seconds, 'en')).toBe(en)
  expect(waitInWords(seconds, 'ko')).toBe(ko)
})

test('events are read however they are cut', async () => {
  const text = 'event: position\ndata: {"name":"한"}\n\n: keep-alive\r\n\r\nevent: outcome\r\ndata: 1\r\ndata: 2\r\n\r\n'
  const bytes = new TextEncoder().encode(text)
  for (const size of [1, 3, 7, bytes.length]) {
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size))
        controller.close()
      },
    })
    const read = []
    for await (const event of readEvents(stream)) read.push(event)
    expect(read).toEqual([
      { event: 'position', data: '{"name":"한"}' },
      { event: 'outcome', data: '1\n2' },
    ])
  }
})
