package peer;

import org.springframework.boot.context.properties.ConfigurationProperties;

/** What the launcher decides: {@code --peer.mode=...} or {@code PEER_MODE}; defaults are in application.properties. */
@ConfigurationProperties("peer")
record Settings(
        Mode mode,
        int capacity,
        String jdbcUrl,
        String jdbcUser,
        String jdbcPassword,
        String redisUrl,
        Redis.Pools redissonPools,
        int databaseConnections,
        long ratePerSecond,
        boolean endsWithInput) {

    /** Which of the two systems this server is. */
    enum Mode {
        FAIR_LOCK,
        ADMISSION
    }
}
