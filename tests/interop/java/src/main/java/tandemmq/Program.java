package tandemmq;

/** How the programs end. */
final class Program {
    /** What one does; false: it did not go well, and has said so. */
    interface Body {
        boolean run() throws Exception;
    }

    private Program() { }

    /** Runs it and ends the process: 0 all went well, 1 it did not, 2 wrong words. */
    static void run(Body body) {
        int status = 1;
        try {
            status = body.run() ? 0 : 1;
        } catch (Args.UsageException e) {
            System.err.println(e.getMessage());
            status = 2;
        } catch (Throwable e) {
            e.printStackTrace();
        }
        System.out.flush();
        System.err.flush();
        // A store that failed to open leaves threads that would hold the process; those closed cleanly have nothing to lose.
        Runtime.getRuntime().halt(status);
    }
}
