package tandemmq;

import java.util.function.BiFunction;
import org.apache.rocketmq.broker.filter.ConsumerFilterData;
import org.apache.rocketmq.broker.filter.ConsumerFilterManager;
import org.apache.rocketmq.broker.filter.ExpressionMessageFilter;
import org.apache.rocketmq.common.filter.ExpressionType;
import org.apache.rocketmq.remoting.protocol.filter.FilterAPI;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.store.MessageFilter;

/** Makes the filter that the broker hands to the store, out of a type of expression and its text. */
public final class BrokerFilters implements BiFunction<String, String, MessageFilter> {
    private static final String TOPIC = "t";

    private final ConsumerFilterManager manager = new ConsumerFilterManager();

    @Override
    public MessageFilter apply(String type, String expression) {
        try {
            SubscriptionData subscription = FilterAPI.build(TOPIC, expression, type);
            ConsumerFilterData data = ExpressionType.isTagType(type) ? null : ConsumerFilterManager.build(TOPIC, "g", expression, type, 1);
            return new ExpressionMessageFilter(subscription, data, manager);
        } catch (Exception e) {
            throw new IllegalArgumentException("no filter: " + expression, e);
        }
    }
}
