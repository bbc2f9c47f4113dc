package peer;

import java.util.Locale;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Redisson clients, as they come and as a busy service sets them. */
final class Redis {
    enum Pools {
        /** Nothing but the address. */
        DEFAULTS,
        /** Room for as many waiting threads as there are connections to the server. */
        RAISED;

        static Pools named(String name) {
            return valueOf(name.toUpperCase(Locale.ROOT));
        }
    }

    static RedissonClient connect(String url, Pools pools) {
        var config = new Config();
        var server = config.useSingleServer().setAddress(url);
        if (pools == Pools.RAISED) {
            // Keys and values are short texts: Kryo would only cost.
            config.setCodec(StringCodec.INSTANCE);
            // More threads than this only take turns on two cores; netty needs few, callbacks some more.
            config.setNettyThreads(4).setThreads(16);
            server.setConnectionPoolSize(128).setConnectionMinimumIdleSize(32);
            // Every waiter of a fair lock has a channel of its own: 50 connections with 5 each, as they come, are room
            // for 250 waiters, and everybody after them fails. This is room for 25,000.
            server.setSubscriptionConnectionPoolSize(50)
                    .setSubscriptionConnectionMinimumIdleSize(4)
                    .setSubscriptionsPerConnection(500);
            // A crowd is slow, not broken: waiting longer beats sending everything again.
            server.setTimeout(20_000).setSubscriptionTimeout(20_000);
        }
        return Redisson.create(config);
    }

    private Redis() {}
}
