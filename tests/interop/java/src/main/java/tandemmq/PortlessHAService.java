package tandemmq;

import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.ha.DefaultHAService;

/**
 * The replication service of a master that will never have a replica: it starts no thread and opens no port. The store
 * takes it in place of its own because META-INF/service names it.
 */
public final class PortlessHAService extends DefaultHAService {
    @Override
    public void init(DefaultMessageStore store) {
        defaultMessageStore = store;
    }

    @Override
    public void start() {
        // Nothing listens.
    }

    @Override
    public void shutdown() {
        // Nothing was started.
    }
}
