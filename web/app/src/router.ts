import { nextTick } from 'vue'
import { createRouter, createWebHistory, type RouteLocationRaw } from 'vue-router'
import { person } from './session'
import { words } from './language'
import VenuesPage from './pages/VenuesPage.vue'

declare module 'vue-router' {
  interface RouteMeta {
    /** Needs somebody who is signed in. */
    own?: boolean
    title?: (w: typeof words.value) => string
  }
}

export const router = createRouter({
  history: createWebHistory(),
  scrollBehavior: (_to, _from, saved) => saved ?? { top: 0 },
  routes: [
    { path: '/', name: 'venues', component: VenuesPage, meta: { title: (w) => w.venues.title } },
    { path: '/sign-in', name: 'sign-in', component: () => import('./pages/SignInPage.vue'), meta: { title: (w) => w.signIn.title } },
    { path: '/venues/:id', name: 'venue', component: () => import('./pages/VenuePage.vue'), props: true },
    { path: '/venues/:id/menu', name: 'menu', component: () => import('./pages/MenuPage.vue'), props: true, meta: { title: (w) => w.menu.title } },
    { path: '/venues/:id/waitlist', name: 'waitlist', component: () => import('./pages/WaitlistPage.vue'), props: true, meta: { own: true, title: (w) => w.waitlist.title } },
    { path: '/move', name: 'move', component: () => import('./pages/MovePage.vue'), meta: { title: (w) => w.move.title } },
    { path: '/reservations', name: 'reservations', component: () => import('./pages/ReservationsPage.vue'), meta: { own: true, title: (w) => w.reservations.title } },
    { path: '/reservations/:id', name: 'reservation', component: () => import('./pages/ReservationPage.vue'), props: true, meta: { title: (w) => w.reservation.title } },
    { path: '/venues/:id/waiting-room', name: 'waiting-room', component: () => import('./pages/WaitingRoomPage.vue'), props: true, meta: { title: (w) => w.room.title } },
    { path: '/staff', name: 'staff', component: () => import('./pages/StaffPage.vue'), meta: { own: true, title: (w) => w.staff.title } },
    { path: '/staff/:id', name: 'staff-day', component: () => import('./pages/StaffDayPage.vue'), props: true, meta: { own: true, title: (w) => w.staff.day } },
    { path: '/staff/:id/board', name: 'staff-board', component: () => import('./pages/StaffBoardPage.vue'), props: true, meta: { own: true, title: (w) => w.staff.board } },
    { path: '/staff/:id/settings', name: 'staff-settings', component: () => import('./pages/StaffSettingsPage.vue'), props: true, meta: { own: true, title: (w) => w.staff.settings } },
    { path: '/staff/:id/door', name: 'staff-door', component: () => import('./pages/StaffDoorPage.vue'), props: true, meta: { own: true, title: (w) => w.staff.door } },
    { path: '/wallet', name: 'wallet', component: () => import('./pages/WalletPage.vue'), meta: { own: true, title: (w) => w.wallet.title } },
    { path: '/:rest(.*)*', name: 'nowhere', component: () => import('./pages/NowherePage.vue') },
  ],
})

/** Where to sign in, and come back to. */
export function signInFirst(to: string): RouteLocationRaw {
  return { name: 'sign-in', query: { to } }
}

router.beforeEach((to) => (to.meta.own && !person.value ? signInFirst(to.fullPath) : true))

router.afterEach((to, from) => {
  const title = to.meta.title?.(words.value)
  document.title = title ? `${title} · maitred` : 'maitred'
  // Who does not see the page change hears it: the heading of the new page gets the focus.
  if (from.matched.length > 0 && to.path !== from.path) {
    void nextTick(() => document.querySelector<HTMLElement>('main')?.focus({ preventScroll: true }))
  }
})
