package spec

// The keys of each mapping in a scenario file; required ones end in "!". The
// parser and the JSON Schema both read them here.
var (
	scenarioKeys = []string{"apiVersion!", "id!", "title!", "description!", "risk!", "setups!", "deadline", "cluster!", "params", "setup", "aspects!", "on_failure", "always"}
	clusterKeys  = []string{"brokers!", "links", "disk"}
	paramKeys    = []string{"type!", "default!", "min", "max", "enum", "doc!"}
	aspectKeys   = []string{"id!", "title!", "description", "needs", "steps!", "guards", "criteria!"}
	stepKeys     = []string{"id!", "title", "use!", "with", "until", "timeout", "otherwise"}
	untilKeys    = []string{"path!", "op!", "value!", "every", "within", "stable"}
	checkKeys    = []string{"id!", "title!", "metric!", "op!", "value!", "detail"}
)

// paramTypes are the types that a parameter may have.
var paramTypes = []string{string(KindInt), string(KindFloat), string(KindBool), string(KindString), string(KindDuration)}

// ops are the operators of checks and `until`. The ordered ones need numbers,
// contains and excludes need a list.
var ops = []string{"==", "!=", "<", "<=", ">", ">=", "contains", "excludes"}

// Setups are the words that `setups` may hold, in the order in which they are
// offered.
var Setups = []string{"process", "container", "compose", "netns", "attach"}
