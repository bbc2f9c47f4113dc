/** Korean or English: what the browser prefers, until somebody says otherwise. Every sentence is in `words/`. */
import { computed, ref, watchEffect } from 'vue'
import { waitInWords } from '@maitred/client'
import en from './words/en'
import ko from './words/ko'

export type Language = 'en' | 'ko'
const KEPT = 'maitred.language'

function preferred(): Language {
  const kept = localStorage.getItem(KEPT)
  if (kept === 'en' || kept === 'ko') return kept
  const known = navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => tag === 'ko' || tag === 'en')
  return known === 'ko' ? 'ko' : 'en'
}

export const language = ref<Language>(preferred())

export function speak(chosen: Language): void {
  localStorage.setItem(KEPT, chosen)
  language.value = chosen
}

watchEffect(() => {
  document.documentElement.lang = language.value
})

/** Every sentence, in the language in use. */
export const words = computed(() => (language.value === 'ko' ? ko : en))

const locale = () => (language.value === 'ko' ? 'ko-KR' : 'en-GB')

export function won(amount: number): string {
  const digits = new Intl.NumberFormat(locale()).format(amount)
  return language.value === 'ko' ? `${digits}원` : `₩${digits}`
}

export function count(n: number): string {
  return new Intl.NumberFormat(locale()).format(n)
}

/** A day of the calendar, which has no time zone. */
export function day(date: string, style: 'long' | 'short' = 'long'): string {
  const options: Intl.DateTimeFormatOptions =
    style === 'long' ? { weekday: 'short', day: 'numeric', month: 'long' } : { weekday: 'short', day: 'numeric', month: 'short' }
  return new Intl.DateTimeFormat(locale(), { ...options, timeZone: 'UTC' }).format(new Date(`${date}T00:00:00Z`))
}

export function month(date: Date): string {
  return new Intl.DateTimeFormat(locale(), { year: 'numeric', month: 'long', timeZone: 'UTC' }).format(date)
}

export function weekdays(): { short: string; long: string }[] {
  const name = (n: number, weekday: 'short' | 'long') =>
    new Intl.DateTimeFormat(locale(), { weekday, timeZone: 'UTC' }).format(new Date(Date.UTC(2024, 0, n)))
  // 1 January 2024 was a Monday.
  return [1, 2, 3, 4, 5, 6, 7].map((n) => ({ short: name(n, 'short'), long: name(n, 'long') }))
}

export function moment(instant: string): string {
  return new Intl.DateTimeFormat(locale(), { dateStyle: 'medium', timeStyle: 'short' }).format(new Date(instant))
}

export function clockTime(instant: number | string): string {
  return new Intl.DateTimeFormat(locale(), { hour: '2-digit', minute: '2-digit', second: '2-digit' }).format(new Date(instant))
}

export function wait(seconds: number): string {
  return waitInWords(seconds, language.value)
}
