package namesrv

import "github.com/tandemq/tandemmq/remoting"

// BrokerData is a broker name with the addresses that are there under it.
type BrokerData struct {
	Addrs              map[int64]string `json:"brokerAddrs"` // by broker id; 0 is the master
	Name               string           `json:"brokerName"`
	Cluster            string           `json:"cluster"`
	EnableActingMaster bool             `json:"enableActingMaster"`
	Zone               string           `json:"zoneName,omitempty"`
}

// QueueData is how many queues of a topic a broker name has, and what clients may do with them.
type QueueData struct {
	BrokerName  string `json:"brokerName"`
	Perm        int32  `json:"perm"`
	ReadQueues  int32  `json:"readQueueNums"`
	SysFlag     int32  `json:"topicSysFlag"`
	WriteQueues int32  `json:"writeQueueNums"`
}

// Route is where the queues of a topic are.
type Route struct {
	Brokers       []BrokerData        `json:"brokerDatas"`
	FilterServers map[string][]string `json:"filterServerTable"`
	OrderConf     string              `json:"orderTopicConf,omitempty"`
	Queues        []QueueData         `json:"queueDatas"`
}

// Cluster is all brokers, by name, and their names by cluster.
type Cluster struct {
	Brokers  map[string]BrokerData `json:"brokerAddrTable"`
	Clusters map[string][]string   `json:"clusterAddrTable"`
}

// DataVersion tells states of a broker's topics apart; all three numbers count.
type DataVersion struct {
	Counter      remoting.Int `json:"counter"`
	StateVersion remoting.Int `json:"stateVersion"`
	TimestampMs  remoting.Int `json:"timestamp"`
}

// topicConfig is what a registration says of a topic, as far as it matters here.
type topicConfig struct {
	Perm        remoting.Int `json:"perm"`
	ReadQueues  remoting.Int `json:"readQueueNums"`
	SysFlag     remoting.Int `json:"topicSysFlag"`
	WriteQueues remoting.Int `json:"writeQueueNums"`
}

type registerBody struct {
	FilterServers []string `json:"filterServerList"`
	Topics        struct {
		Version DataVersion            `json:"dataVersion"`
		Table   map[string]topicConfig `json:"topicConfigTable"`
	} `json:"topicConfigSerializeWrapper"`
}

type keyValues struct {
	Table map[string]string `json:"table"`
}

type topicList struct {
	BrokerAddr string   `json:"brokerAddr,omitempty"`
	Topics     []string `json:"topicList"`
}

type memberGroup struct {
	Group struct {
		Addrs   map[int64]string `json:"brokerAddrs"`
		Name    string           `json:"brokerName"`
		Cluster string           `json:"cluster"`
	} `json:"brokerMemberGroup"`
}
