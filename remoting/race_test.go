package remoting

// raceBuild scales tests down.
const raceBuild = poisonReleased
