/** A waiting time as people say it: "about 2 min 5 s", "약 2분 5초" (A11). */
export function waitInWords(seconds: number, language: 'en' | 'ko'): string {
  const whole = Math.max(0, Math.round(seconds))
  const [h, m, s] = [Math.floor(whole / 3_600), Math.floor((whole % 3_600) / 60), whole % 60]
  const parts: string[] = []
  const say = (n: number, en: string, ko: string) => parts.push(language === 'ko' ? `${n}${ko}` : `${n} ${en}`)
  if (h > 0) say(h, 'h', '시간')
  if (m > 0) say(m, 'min', '분')
  // Nobody who waits for hours counts seconds.
  if (h === 0 && (s > 0 || m === 0)) say(s, 's', '초')
  return `${language === 'ko' ? '약' : 'about'} ${parts.join(' ')}`
}
