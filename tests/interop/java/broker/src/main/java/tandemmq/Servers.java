package tandemmq;

import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;

/**
 * NameServers and brokers of RocketMQ on 127.0.0.1, in one process. Its requests (see Loop):
 *
 * <pre>
 * namesrv NAME DIR PORT   starts one that keeps its files in DIR; says its port, a free one for 0
 * broker NAME CONF        starts one with that broker.conf (see BrokerRun); says its address
 * stop NAME               shuts it down
 * </pre>
 */
public final class Servers {
    private final Map<String, Runnable> stops = new HashMap<>();

    private Servers() {
    }

    public static void main(String[] none) throws Exception {
        Servers servers = new Servers();
        Loop.run(servers::answer);
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "namesrv":
                return String.valueOf(startNameServer(words[1], words[2], Integer.parseInt(words[3])));
            case "broker":
                return startBroker(words[1], words[2]);
            case "stop":
                stops.remove(words[1]).run();
                return "";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private int startNameServer(String name, String dir, int port) throws Exception {
        NamesrvConfig config = new NamesrvConfig();
        config.setRocketmqHome(dir);
        config.setKvConfigPath(dir + "/kvConfig.json");
        config.setConfigStorePath(dir + "/namesrv.properties");
        NettyServerConfig net = new NettyServerConfig();
        net.setBindAddress("127.0.0.1");
        net.setListenPort(port);
        NamesrvController server = new NamesrvController(config, net);
        if (!server.initialize()) {
            throw new IllegalStateException("the NameServer does not initialize");
        }
        server.start();
        stops.put(name, server::shutdown);
        return server.getRemotingServer().localListenPort();
    }

    private String startBroker(String name, String conf) throws Exception {
        BrokerController broker = BrokerRun.start(conf);
        stops.put(name, broker::shutdown);
        return broker.getBrokerAddr();
    }
}
