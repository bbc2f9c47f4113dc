package peer;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;

/**
 * What Redisson's locks cost: {@code RedissonMeasure redis://HOST:PORT raised|defaults}.
 *
 * <p>Every line of the input names a measurement, every line of the output is a JSON object with what it came to, so that
 * somebody else's rounds can be run in between while this stays warm:
 *
 * <pre>
 * fair-lock TASKS SECONDS           each task on a lock of its own
 * hand-over WAITERS SECONDS         one fair lock, everybody in line
 * semaphore TASKS PERMITS SECONDS   one semaphore
 * rate-limiter TASKS SECONDS        one limiter that never refuses
 * </pre>
 */
public final class RedissonMeasure {
    /** What a measurement may take beyond its own time: filling the line, and getting rid of it. */
    private static final long PATIENCE_SECONDS = 75;

    private final String url;
    private final Redis.Pools pools;
    private final RedissonClient redisson;

    private RedissonMeasure(String url, Redis.Pools pools) {
        this.url = url;
        this.pools = pools;
        this.redisson = Redis.connect(url, pools);
    }

    public static void main(String[] arguments) throws IOException {
        var measure = new RedissonMeasure(arguments[0], Redis.Pools.named(arguments[1]));
        var json = new ObjectMapper();
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (var line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(json.writeValueAsString(measure.answer(line.trim())));
            System.out.flush();
        }
        // At once: threads of Redisson may still wait for something.
        Runtime.getRuntime().halt(0);
    }

    private Map<String, Object> answer(String line) {
        var answer = new LinkedHashMap<String, Object>();
        answer.put("measurement", line);
        try {
            var measured = bounded(line.split(" +"));
            answer.put("perSecond", measured.done() / measured.seconds());
            answer.put("done", measured.done());
            answer.put("seconds", measured.seconds());
            answer.put("failed", measured.failed());
            answer.put("queued", measured.queued());
            answer.put("virtualThreads", Threads.areVirtual());
        } catch (Exception failed) {
            answer.put("error", failed.toString());
        }
        return answer;
    }

    /** Whatever happens inside, an answer comes. */
    private Measured bounded(String[] words) throws Exception {
        var time = Duration.ofMillis((long) (1_000 * Double.parseDouble(words[words.length - 1])));
        var task = new FutureTask<>(() -> measure(words, Integer.parseInt(words[1]), time));
        var thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        try {
            return task.get(time.toSeconds() + PATIENCE_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof Exception cause ? cause : failed;
        } catch (TimeoutException late) {
            thread.interrupt();
            throw late;
        }
    }

    private Measured measure(String[] words, int tasks, Duration time) throws InterruptedException {
        return switch (words[0]) {
            case "fair-lock" -> fairLock(tasks, time);
            case "hand-over" -> HandOver.run(url, pools, tasks, time);
            case "semaphore" -> semaphore(tasks, Integer.parseInt(words[2]), time);
            case "rate-limiter" -> rateLimiter(tasks, time);
            default -> throw new IllegalArgumentException("unknown: " + words[0]);
        };
    }

    private Measured fairLock(int tasks, Duration time) throws InterruptedException {
        return Measured.repeat(tasks, time, task -> {
            var lock = redisson.getFairLock("key:" + task);
            lock.lock();
            lock.unlock();
        });
    }

    private Measured semaphore(int tasks, int permits, Duration time) throws InterruptedException {
        var semaphore = redisson.getSemaphore("permits:" + permits + ":" + tasks);
        semaphore.trySetPermits(permits);
        return Measured.repeat(tasks, time, task -> {
            semaphore.acquire();
            semaphore.release();
        });
    }

    private Measured rateLimiter(int tasks, Duration time) throws InterruptedException {
        var limiter = redisson.getRateLimiter("rate");
        limiter.trySetRate(RateType.OVERALL, 1_000_000, Duration.ofSeconds(1));
        return Measured.repeat(tasks, time, task -> {
            if (!limiter.tryAcquire()) {
                throw new IllegalStateException("refused");
            }
        });
    }
}
