package setups

// Ability names something that a step of a scenario may need of a setup. Before a
// run begins, what its steps need is compared with what the setup can.
type Ability string

// The abilities. Those of faults are the same words as the Fault.
const (
	AbilityAdd      Ability = "add"     // start one more broker
	AbilityStart    Ability = "start"   // start a broker again that was stopped or killed
	AbilityStop     Ability = "stop"    // end a broker in order
	AbilityKill     Ability = "kill"    // end a broker as a crash does
	AbilityPause    Ability = "pause"   // freeze and thaw a broker
	AbilityUpgrade  Ability = "upgrade" // start a stopped broker with another binary
	AbilityMistake  Ability = "mistake" // start a broker in a wrong way
	AbilityAdmin    Ability = "admin"   // the cluster answers Ister's admin API
	AbilityCutOff           = Ability(FaultCutOff)
	AbilitySlow             = Ability(FaultSlow)
	AbilityFillDisk         = Ability(FaultFillDisk)
)

// Abilities lists every ability, with what it is as in "cannot ...".
var Abilities = []struct {
	Ability Ability
	What    string
}{
	{AbilityAdd, "add a broker"},
	{AbilityStart, "start a broker again"},
	{AbilityStop, "stop a broker"},
	{AbilityKill, "kill a broker"},
	{AbilityPause, "pause a broker"},
	{AbilityUpgrade, "start a broker with another binary"},
	{AbilityMistake, "start a broker in a wrong way"},
	{AbilityAdmin, "ask the admin API"},
	{AbilityCutOff, "cut a broker off from the others"},
	{AbilitySlow, "slow the network between brokers down"},
	{AbilityFillDisk, "fill a broker's disk"},
}

// What is the ability as in "cannot ...".
func (a Ability) What() string {
	for _, known := range Abilities {
		if known.Ability == a {
			return known.What
		}
	}
	return string(a)
}

// Limited is a Setup that says itself what its clusters can.
type Limited interface {
	// Cannot is nil when every cluster of the setup, as it is configured, has the
	// ability, and else why not and what to do instead. It asks nobody: the answer
	// is there before a cluster is.
	Cannot(Ability) *Refused
}

// Cannot asks a setup whether its clusters have an ability; nil: they have it. A
// setup that is not Limited starts brokers of its own, so it can do all that a
// Cluster promises; what only some clusters implement (another binary, faults of
// network and disk) has to be promised by a Limited one.
func Cannot(setup Setup, ability Ability) *Refused {
	if limited, ok := setup.(Limited); ok {
		return limited.Cannot(ability)
	}
	return StartsBrokers(setup.Name(), ability)
}

// StartsBrokers is Cannot of a setup that starts brokers of its own, and promises
// no more.
func StartsBrokers(name string, ability Ability) *Refused {
	switch ability {
	case AbilityAdd, AbilityStart, AbilityStop, AbilityKill, AbilityPause, AbilityAdmin:
		return nil
	}
	return &Refused{Setup: name, What: ability.What(), Why: "it has no means to", Remedy: "use another setup"}
}
