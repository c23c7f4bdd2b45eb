package broker

import "github.com/tandemq/tandemmq/remoting"

// handlers says who serves which request code. Codes that are not there are answered with 3.
func (b *Broker) handlers() remoting.Mux {
	return remoting.Mux{
		remoting.GetMaxOffset:            b.getMaxOffset,
		remoting.GetMinOffset:            b.getMinOffset,
		remoting.SearchOffsetByTimestamp: b.searchOffsetByTimestamp,
		remoting.GetEarliestMsgStoreTime: b.getEarliestStoreTime,
	}
}
