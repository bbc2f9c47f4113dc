package peer;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.IOException;
import javax.sql.DataSource;
import org.redisson.api.RedissonClient;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.web.servlet.context.ServletWebServerApplicationContext;
import org.springframework.context.annotation.Bean;

/** Starts the server, says where it listens, and ends with whoever started it. */
@SpringBootApplication
@EnableConfigurationProperties(Settings.class)
public class ReservationServer {
    public static void main(String[] arguments) {
        var context = (ServletWebServerApplicationContext)
                SpringApplication.run(ReservationServer.class, arguments);
        System.out.println("127.0.0.1:" + context.getWebServer().getPort());
        System.out.flush();
        if (context.getBean(Settings.class).endsWithInput()) {
            endWithInput();
        }
    }

    @Bean
    DataSource dataSource(Settings settings) {
        var config = new HikariConfig();
        config.setJdbcUrl(settings.jdbcUrl());
        config.setUsername(settings.jdbcUser());
        config.setPassword(settings.jdbcPassword());
        config.setMaximumPoolSize(settings.databaseConnections());
        config.setMinimumIdle(settings.databaseConnections());
        // Prepared on the server from the first use on, and kept; nothing asks for more than a dozen statements.
        config.addDataSourceProperty("prepareThreshold", "1");
        config.addDataSourceProperty("preparedStatementCacheQueries", "256");
        config.addDataSourceProperty("tcpNoDelay", "true");
        config.setConnectionTimeout(30_000);
        return new HikariDataSource(config);
    }

    @Bean(destroyMethod = "shutdown")
    RedissonClient redisson(Settings settings) {
        return Redis.connect(settings.redisUrl(), settings.redissonPools());
    }

    @Bean
    Pipeline pipeline(Settings settings, RedissonClient redisson, Store store) {
        return switch (settings.mode()) {
            case FAIR_LOCK -> new FairLockPipeline(redisson, store);
            case ADMISSION -> new AdmissionPipeline(redisson, store, settings.ratePerSecond());
        };
    }

    /** However the launcher ends, its pipe closes: nothing is left behind. */
    private static void endWithInput() {
        var thread = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (IOException closed) {
                // The same as its end.
            }
            Runtime.getRuntime().halt(0);
        });
        thread.setDaemon(true);
        thread.start();
    }
}
