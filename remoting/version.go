package remoting

import "strconv"

// Language is the language that a peer says it is written in; the value is its code in binary headers.
//
// Source: LanguageCode, 5.5.0.
type Language uint8

// The languages.
const (
	Java Language = iota
	CPP
	DotNet
	Python
	Delphi
	Erlang
	Ruby
	OtherLanguage
	HTTP
	Go
	PHP
	OMS
	Rust
	NodeJS
	// UnknownLanguage stands for a name that is not in the list, which Java takes for null.
	UnknownLanguage Language = 255
)

var languageNames = [...]string{
	"JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS",
}

// String gives RocketMQ's name of the language, "" of an unknown one.
func (l Language) String() string {
	if int(l) < len(languageNames) {
		return languageNames[l]
	}
	return ""
}

// languageOf finds a language by its name.
func languageOf(name []byte) Language {
	for i, n := range languageNames {
		if string(name) == n {
			return Language(i)
		}
	}
	return UnknownLanguage
}

// Ordinals in RocketMQ's list of versions.
//
// Source: MQVersion.Version, 5.5.0.
const (
	V3_0_7_SNAPSHOT int32 = 28  // older clients cannot be told to reset an offset
	V3_0_11         int32 = 37  // a NameServer takes the full register body from here on
	V3_1_8_SNAPSHOT int32 = 62  // requests can be forwarded to a client from here on
	V3_4_9          int32 = 121 // maxReconsumeTimes of a request goes before the group's from here on
	V4_1_0_SNAPSHOT int32 = 232 // a Java client uses SQL92 with brokers from here on
	V4_9_3          int32 = 399 // up to here _UNIQUE_KEY_QUERY is set after a request was signed
	V4_9_4          int32 = 401 // route bodies have quoted keys from here on
	V5_0_0          int32 = 413
	V5_3_1          int32 = 475 // later clients understand 1500 (GO_AWAY)
	V5_5_0          int32 = 513 // what this package announces
	HigherVersion   int32 = 612
)

// CurrentVersion is in each frame that originates here.
const CurrentVersion = V5_5_0

var versionNames = map[int32]string{
	26: "V3_0_6_SNAPSHOT", 28: "V3_0_7_SNAPSHOT", 37: "V3_0_11", 62: "V3_1_8_SNAPSHOT", 121: "V3_4_9", 213: "V4_0_0",
	232: "V4_1_0_SNAPSHOT", 273: "V4_3_0", 317: "V4_5_2", 333: "V4_6_0", 353: "V4_7_0", 399: "V4_9_3", 401: "V4_9_4", 413: "V5_0_0",
	433: "V5_1_0", 475: "V5_3_1", 477: "V5_3_2", 513: "V5_5_0", 612: "HIGHER_VERSION",
}

// VersionName names the versions that somebody compares with or that clients are known to announce, and gives the number of others.
func VersionName(v int32) string {
	if name, ok := versionNames[v]; ok {
		return name
	}
	return strconv.Itoa(int(v))
}
