package tandemmq;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.broker.filter.ConsumerFilterData;
import org.apache.rocketmq.broker.filter.ConsumerFilterManager;
import org.apache.rocketmq.broker.filter.ExpressionMessageFilter;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.remoting.protocol.filter.FilterAPI;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;

/**
 * Says what the broker's message filters make of expressions. It reads questions from standard input, one JSON object a line, and
 * prints an answer for each.
 *
 * <pre>
 * {"type":"SQL92","expression":"a &gt; 5","sets":[{"a":"7"},{}]}
 * {"compiles":true,"values":["true","null"],"matches":[true,false]}      values: true, false, null, throws, or the class of the value
 *
 * {"type":"TAG","expression":"A || B","codes":[65,66,67,null]}
 * {"compiles":true,"tags":["A","B"],"tagCodes":[65,66],"matches":[true,true,false,true]}
 * </pre>
 *
 * A text that is refused gives {"compiles":false,"why":"..."}.
 */
public final class FilterCheck {
    private static final Gson GSON = new GsonBuilder().disableHtmlEscaping().create();
    private static final String TOPIC = "t";

    private FilterCheck() {
    }

    private static final class Question {
        String type;
        String expression;
        List<Map<String, String>> sets;
        List<Long> codes;
    }

    private static final class Answer {
        boolean compiles;
        String why;
        Set<String> tags;
        Set<Integer> tagCodes;
        List<String> values;
        List<Boolean> matches;
    }

    public static void main(String[] words) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // for the logs
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ConsumerFilterManager manager = new ConsumerFilterManager();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Question question = GSON.fromJson(line, Question.class);
            out.println(GSON.toJson(question.type.equals("TAG") ? tag(question, manager) : sql(question, manager)));
        }
        out.flush();
        System.exit(0);
    }

    private static Answer tag(Question question, ConsumerFilterManager manager) {
        Answer answer = new Answer();
        SubscriptionData subscription;
        try {
            subscription = FilterAPI.buildSubscriptionData(TOPIC, question.expression);
        } catch (Exception e) {
            answer.why = e.toString();
            return answer;
        }
        answer.compiles = true;
        answer.tags = new TreeSet<>(subscription.getTagsSet());
        answer.tagCodes = new TreeSet<>(subscription.getCodeSet());
        ExpressionMessageFilter filter = new ExpressionMessageFilter(subscription, null, manager);
        answer.matches = new ArrayList<>();
        for (Long code : question.codes) {
            answer.matches.add(filter.isMatchedByConsumeQueue(code, null));
        }
        return answer;
    }

    private static Answer sql(Question question, ConsumerFilterManager manager) throws Exception {
        Answer answer = new Answer();
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get("SQL92").compile(question.expression);
        } catch (Throwable e) {
            answer.why = e.toString();
            return answer;
        }
        answer.compiles = true;
        answer.values = new ArrayList<>();
        answer.matches = new ArrayList<>();
        SubscriptionData subscription = FilterAPI.build(TOPIC, question.expression, "SQL92");
        ConsumerFilterData data = ConsumerFilterManager.build(TOPIC, "g", question.expression, "SQL92", 1);
        ExpressionMessageFilter filter = new ExpressionMessageFilter(subscription, data, manager);
        for (Map<String, String> set : question.sets) {
            answer.values.add(value(expression, set));
            answer.matches.add(filter.isMatchedByCommitLog(null, set));
        }
        return answer;
    }

    private static String value(Expression expression, Map<String, String> properties) {
        Object value;
        try {
            value = expression.evaluate(new MessageEvaluationContext(properties));
        } catch (Throwable e) {
            return "throws";
        }
        return value == null ? "null" : value instanceof Boolean ? value.toString() : value.getClass().getSimpleName();
    }
}
